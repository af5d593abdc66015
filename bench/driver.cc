#include "bench/driver.h"

#include <sys/resource.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "bench/loop_clock.h"

namespace interlock::bench {

namespace {

struct Done {
    std::uint32_t client;
    bool refused;
};

// Where answers wait for the driver.
class Inbox {
 public:
    void push(Done done) {
        const std::lock_guard lock(mutex_);
        answers_.push_back(done);
        // Under the lock, because the one who takes the last answer may take the inbox away with it.
        if (std::exchange(driver_sleeps_, false)) arrived_.notify_one();
    }

    // Waits for at least one and takes all; `taken` is emptied first.
    void take(std::vector<Done>& taken) {
        taken.clear();
        std::unique_lock lock(mutex_);
        while (answers_.empty()) {
            driver_sleeps_ = true;
            arrived_.wait(lock);
        }
        driver_sleeps_ = false;
        taken.swap(answers_);
    }

 private:
    std::mutex mutex_;
    std::condition_variable arrived_;
    std::vector<Done> answers_;
    bool driver_sleeps_ = false;
};

engine::Submission submission(core::OrgId org, core::CommandBody body, Ids& ids, engine::OnAnswer on_answer) {
    engine::Submission made;
    made.command.org = org;
    made.command.key = core::CommandKey(ids.next());
    made.command.body = std::move(body);
    made.on_answer = std::move(on_answer);
    return made;
}

// One run of the loop. Its answers carry only its address and the client's number: that fits into a std::function
// without memory of its own, so the target is not measured with an allocation of ours per command.
class Loop {
 public:
    Loop(Target& target, Workload& workload, Ids& ids, LoopOptions options)
        : target_(target), workload_(workload), ids_(ids), options_(options), submitted_at_(options.clients) {}

    LoopResult run() {
        workload_.begin(options_.clients);
        const std::uint64_t batches_before = target_.batches();
        const auto begun = Clock::now();
        const auto measured_from = begun + as_duration(options_.warm_up_seconds);
        const auto measured_to = measured_from + as_duration(options_.seconds);

        std::vector<Done> done;
        std::vector<Done> waiting;
        for (std::uint32_t client = 0; client < options_.clients; ++client) done.push_back({client, false});
        std::size_t on_their_way = 0;
        bool measuring = false;
        bool ended = false;
        CpuTime cpu_from;
        Clock::time_point from;
        submit_next(done, begun);
        on_their_way = done.size();

        while (on_their_way > 0) {
            inbox_.take(done);
            const auto now = Clock::now();
            on_their_way -= done.size();
            result_.answered += done.size();
            for (const Done& answer : done) result_.refused += answer.refused;
            if (measuring && !ended) {
                result_.commands += done.size();
                for (const Done& answer : done) result_.latency.add(nanos_between(submitted_at_[answer.client], now));
            }
            if (!measuring && now >= measured_from) {
                measuring = true;
                from = now;
                cpu_from = CpuTime::now();
            }
            if (!ended && (now >= measured_to || result_.answered >= options_.commands_max)) {
                ended = true;
                finish_measuring(from, now, cpu_from);
            }
            if (ended) continue;
            if (options_.in_step) {
                waiting.insert(waiting.end(), done.begin(), done.end());
                if (on_their_way > 0) continue;
                done.swap(waiting);
                waiting.clear();
            }
            submit_next(done, now);
            on_their_way += done.size();
        }
        const std::uint64_t batches = target_.batches() - batches_before;
        result_.batch_mean = batches > 0 ? static_cast<double>(result_.answered) / static_cast<double>(batches) : 0;
        return result_;
    }

 private:
    void submit_next(const std::vector<Done>& done, Clock::time_point now) {
        ids_.set_time();
        std::vector<engine::Submission> submissions;
        submissions.reserve(done.size());
        for (const Done& answer : done) {
            const std::uint32_t client = answer.client;
            submissions.push_back(
                submission(options_.org, workload_.next(client, ids_), ids_,
                           [this, client](const engine::SubmitResult& got) { on_answer(client, got); }));
            submitted_at_[client] = now;
        }
        target_.submit(std::move(submissions));
    }

    void on_answer(std::uint32_t client, const engine::SubmitResult& answer) {
        const bool refused = target_.decides() ? !workload_.answered(client, answer) : !answer;
        inbox_.push({client, refused});
    }

    void finish_measuring(Clock::time_point from, Clock::time_point to, const CpuTime& cpu_from) {
        const CpuTime cpu = CpuTime::now();
        result_.seconds = static_cast<double>(nanos_between(from, to)) * 1e-9;
        result_.cpu_us = cpu.process_us - cpu_from.process_us;
        result_.driver_cpu_us = cpu.thread_us - cpu_from.thread_us;
    }

    Target& target_;
    Workload& workload_;
    Ids& ids_;
    const LoopOptions options_;
    std::vector<Clock::time_point> submitted_at_;
    Inbox inbox_;
    LoopResult result_;
};

}  // namespace

std::uint64_t run_once(Target& target, std::vector<core::CommandBody> commands, Ids& ids, core::OrgId org) {
    Inbox inbox;
    std::vector<engine::Submission> submissions;
    ids.set_time();
    for (core::CommandBody& body : commands) {
        submissions.push_back(submission(org, std::move(body), ids,
                                         [&](const engine::SubmitResult& answer) { inbox.push({0, !answer}); }));
    }
    std::size_t on_their_way = submissions.size();
    target.submit(std::move(submissions));

    std::uint64_t refused = 0;
    for (std::vector<Done> done; on_their_way > 0; on_their_way -= done.size()) {
        inbox.take(done);
        for (const Done& answer : done) refused += answer.refused;
    }
    return refused;
}

LoopResult run_loop(Target& target, Workload& workload, Ids& ids, LoopOptions options) {
    return Loop(target, workload, ids, options).run();
}

}  // namespace interlock::bench
