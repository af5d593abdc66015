#include "nodes/peer_link.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "net/http_client.h"
#include "nodes/inbound.h"
#include "nodes/wire.h"

namespace interlock::nodes {

using std::chrono::steady_clock;

struct PeerLink::Connection {
    std::optional<net::HttpClient> client;  // Empty when the URL is none.
};

PeerLink::PeerLink(Options options) : options_(std::move(options)), connection_(std::make_unique<Connection>()) {
    if (auto url = net::parse_url(options_.url)) {
        net::HttpClient::Options how;
        how.connect_timeout = options_.timeout / 2;
        how.total_timeout = options_.timeout;
        how.ca_file = options_.ca_file;
        connection_->client.emplace(std::move(*url), std::move(how));
    }
    thread_ = std::thread([this] { run(); });
}

PeerLink::~PeerLink() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    work_.notify_one();
    thread_.join();
    if (!queue_.empty()) options_.hand_back(PeerError::silent, std::move(queue_));
}

void PeerLink::submit(std::vector<engine::Submission> submissions) {
    std::size_t taken = 0;
    {
        const std::lock_guard lock(mutex_);
        const std::size_t room = options_.queue_max - std::min(options_.queue_max, queue_.size());
        taken = std::min(room, submissions.size());
        std::move(submissions.begin(), submissions.begin() + static_cast<std::ptrdiff_t>(taken),
                  std::back_inserter(queue_));
    }
    work_.notify_one();
    for (std::size_t i = taken; i < submissions.size(); ++i) {
        submissions[i].on_answer(fail(engine::SubmitError::busy));
    }
}

std::size_t PeerLink::queue_depth() const {
    const std::lock_guard lock(mutex_);
    return queue_.size();
}

void PeerLink::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        work_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
        if (stopping_) return;
        std::vector<engine::Submission> batch;
        if (queue_.size() <= options_.journey_max) {
            batch.swap(queue_);
        } else {
            const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(options_.journey_max);
            std::move(queue_.begin(), end, std::back_inserter(batch));
            queue_.erase(queue_.begin(), end);
        }
        lock.unlock();
        send_batch(std::move(batch));
        lock.lock();
    }
}

void PeerLink::send_batch(std::vector<engine::Submission> batch) {
    const auto begun = steady_clock::now();
    const auto came_back = [&](PeerError trouble) { options_.hand_back(trouble, std::move(batch)); };
    if (!connection_->client) return came_back(PeerError::gone);

    net::ClientRequest request;
    request.method = net::Method::post;
    request.target = inbound_path;
    request.headers = {{"authorization", "Bearer " + options_.secret}, {"content-type", inbound_type}};
    request.body = encode_commands(batch, options_.now());
    if (request.body.size() > options_.journey_bytes_max && batch.size() > 1) {
        const auto half = batch.begin() + static_cast<std::ptrdiff_t>(batch.size() / 2);
        std::vector<engine::Submission> rest(std::make_move_iterator(half), std::make_move_iterator(batch.end()));
        batch.erase(half, batch.end());
        send_batch(std::move(batch));
        return send_batch(std::move(rest));
    }

    // 1. There. Past this line nobody here can know what became of the commands, until an answer comes.
    const auto response = connection_->client->request(std::move(request));

    // 2. Back.
    if (!response) {
        const bool in_time = steady_clock::now() - begun < options_.timeout;
        return came_back(in_time ? PeerError::gone : PeerError::silent);
    }
    auto answers = response->status == 200 ? decode_answers(response->body) : std::nullopt;
    if (!answers || answers->answers.size() != batch.size()) return came_back(PeerError::gone);

    for (const Head& head : answers->heads) {
        if (options_.on_head) options_.on_head(head);
    }
    if (!answers->written_here) {
        std::set<core::OrgId> orgs;
        for (const engine::Submission& submission : batch) orgs.insert(submission.command.org);
        for (const core::OrgId org : orgs) options_.not_written_there(org);
    }
    std::vector<engine::Submission> unserved;
    for (std::size_t i = 0; i < batch.size(); ++i) {
        engine::SubmitResult& answer = answers->answers[i];
        if (!answer && answer.error() == engine::SubmitError::unavailable) {
            unserved.push_back(std::move(batch[i]));
        } else {
            batch[i].on_answer(std::move(answer));
        }
    }
    if (!unserved.empty()) options_.hand_back(PeerError::unavailable, std::move(unserved));
}

}  // namespace interlock::nodes
