#include "cli/child_run.h"

#include <signal.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "cli/run_logs.h"
#include "cli/text.h"
#include "cli/view.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

std::string variable(const Context& context, std::string_view name) {
    for (const std::string& each : context.environment.variables) {
        if (each.size() > name.size() && each.starts_with(name) && each[name.size()] == '=') {
            return each.substr(name.size() + 1);
        }
    }
    return {};
}

// Replaces pass_env by the values of this process, because the server's environment is not for runs.
void take_values_from_here(const Context& context, json::object& body) {
    const auto* names = body.if_contains("pass_env");
    if (names == nullptr) return;
    json::object& env = body["env"].is_object() ? body["env"].as_object() : body["env"].emplace_object();
    for (const json::value& name : names->as_array()) {
        if (const std::string value = variable(context, text_of(name)); !value.empty()) env[text_of(name)] = value;
    }
    body.erase("pass_env");
}

// In its lifetime SIGINT, SIGTERM and SIGHUP cancel the run. This program then ends with the run.
class CancelsOnSignal {
 public:
    CancelsOnSignal(Context& context, std::string run) : context_(context), run_(std::move(run)) {
        sigemptyset(&signals_);
        for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, signal);
        ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
        thread_ = std::thread([this] { wait(); });
    }
    ~CancelsOnSignal() {
        done_ = true;
        thread_.join();
        ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    CancelsOnSignal(const CancelsOnSignal&) = delete;
    CancelsOnSignal& operator=(const CancelsOnSignal&) = delete;

 private:
    void wait() {
        const timespec pause{.tv_sec = 0, .tv_nsec = 100'000'000};
        while (!done_) {
            if (::sigtimedwait(&signals_, nullptr, &pause) < 0) continue;
            auto client = context_.connect();
            if (!client) continue;
            (void)client->change({.method = "POST",
                                  .target = "/v1/runs/" + percent_encoded(run_) + "/cancel",
                                  .body = R"({"reason":"the command that started it was interrupted"})",
                                  .key = context_.world.fresh_key()});
        }
    }

    Context& context_;
    const std::string run_;
    sigset_t signals_{};
    sigset_t before_{};
    std::atomic<bool> done_ = false;
    std::thread thread_;
};

}  // namespace

ExitCode start_child_run(Context& context, const Invocation& invocation, json::object body) {
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const auto parent = client->get("/v1/runs/" + percent_encoded(context.environment.run));
    if (!parent) return context.report(parent.error());
    if (!invocation.has("agent")) body["agent"] = text_of(member_of(parent->document, "agent"));
    body.erase("foreground");
    take_values_from_here(context, body);
    if (!body.contains("workspace") && member_of(parent->document, "workspace").is_string()) {
        std::error_code gone;
        body["workspace"] = std::filesystem::current_path(gone).string();
        if (gone) {
            return context.report(
                bad_usage("the current directory no longer exists", "pass --workspace DIR or --no-workspace"));
        }
    }
    const auto admitted = client->change(
        {.method = "POST", .target = "/v1/runs", .body = json::serialize(body), .key = key_of(context, invocation)});
    if (!admitted) return context.report(admitted.error());
    if (invocation.has("detach")) return leave_behind(context, *admitted);
    const std::string run = text_of(member_of(admitted->document, "id"));
    context.remark(fmt::format("{} is a child run of {}", one_line(run), one_line(context.environment.run)));
    const CancelsOnSignal cancels(context, run);
    return follow_to_end(context, *client, run, 0);
}

}  // namespace interlock::cli
