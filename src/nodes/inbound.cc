#include "nodes/inbound.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>

#include "net/answer.h"
#include "nodes/wire.h"

namespace interlock::nodes {
namespace {

net::Task<net::Response> ready(net::Response response) { co_return response; }

// The answers of one journey, delivered when the last one is there.
struct Gathering {
    Gathering(std::size_t count, net::Deliver<std::vector<engine::SubmitResult>> its_deliver)
        : answers(count, fail(engine::SubmitError::outcome_unknown)), missing(count), deliver(std::move(its_deliver)) {}

    void put(std::size_t index, engine::SubmitResult answer) {
        answers[index] = std::move(answer);
        if (--missing == 0) deliver(std::move(answers));
    }

    std::vector<engine::SubmitResult> answers;
    std::atomic<std::size_t> missing;
    net::Deliver<std::vector<engine::SubmitResult>> deliver;
};

}  // namespace

bool Inbound::is_of_a_node(const net::Request& request) const {
    const std::string expected = "Bearer " + options_.secret;
    const std::string_view shown = request.header("authorization");
    return request.path == inbound_path && shown.size() == expected.size() &&
           CRYPTO_memcmp(shown.data(), expected.data(), expected.size()) == 0;
}

std::optional<net::Task<net::Response>> Inbound::answer(const net::Request& request) const {
    if (request.path != inbound_path) return std::nullopt;
    if (!is_of_a_node(request)) {
        return ready(net::problem(401, "unauthorized", "this door is for nodes on the same store"));
    }
    if (request.method != net::Method::post || request.header("content-type") != inbound_type) {
        return ready(net::problem(415, "unsupported_media_type", "nodes speak another format here"));
    }
    return carry_out(request.body);
}

net::Task<net::Response> Inbound::carry_out(std::string body) const {
    auto commands = decode_commands(body);
    if (!commands) co_return net::problem(415, "unsupported_media_type", "a node of another version");
    Answers answers;
    if (!commands->empty()) {
        answers.written_here =
            std::ranges::all_of(*commands, [&](const Forwarded& each) { return options_.writes(each.command.org); });
        answers.answers = co_await net::await_answer<std::vector<engine::SubmitResult>>(
            [&](net::Deliver<std::vector<engine::SubmitResult>> deliver) {
                const auto gathering = std::make_shared<Gathering>(commands->size(), std::move(deliver));
                const Instant now = options_.now();
                std::vector<engine::Submission> submissions;
                submissions.reserve(commands->size());
                for (std::size_t i = 0; i < commands->size(); ++i) {
                    Forwarded& each = (*commands)[i];
                    const bool forever = each.timeout == Duration::max();
                    submissions.push_back(
                        {.command = std::move(each.command),
                         .on_answer = [gathering,
                                       i](engine::SubmitResult answer) { gathering->put(i, std::move(answer)); },
                         .deadline = forever ? far_future : now + each.timeout,
                         .hops = each.hops});
                }
                options_.submit(std::move(submissions));
            });
        std::set<core::OrgId> orgs;
        for (const Forwarded& each : *commands) orgs.insert(each.command.org);
        for (const core::OrgId org : orgs) {
            if (auto head = options_.head ? options_.head(org) : std::nullopt)
                answers.heads.push_back(std::move(*head));
        }
    }
    net::Response response;
    response.content_type = inbound_type;
    response.body = encode_answers(answers);
    co_return response;
}

}  // namespace interlock::nodes
