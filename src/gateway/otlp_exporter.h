// Sends what it hears of calls to an OpenTelemetry collector, in its own time.
//
//   (1) Nobody waits for the collector. Calls queue up to a bound; beyond it their spans are dropped, and counted.
//       Their histograms are not: these only grow until somebody takes them.
//   (2) What the collector cannot take now (429, 5xx, no connection) is sent again, later and later. What it refuses is
//       dropped, and counted.
//   (3) Sent at least once. A span that arrives twice is the same span; a histogram whose answer was lost may count
//       twice, because OTLP has no name for it.
//
// Nothing is kept across a restart.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/log.h"
#include "gateway/ended_call.h"
#include "gateway/otlp.h"
#include "gateway/settings.h"
#include "net/http_client.h"

namespace interlock::gateway {

struct OtlpStats {
    std::uint64_t sent = 0;      // Spans that were taken.
    std::uint64_t dropped = 0;   // Spans that were not, and will not be.
    std::uint64_t failures = 0;  // Requests that were not taken.
    std::uint64_t queued = 0;    // Spans that wait.
};

class OtlpExporter {
 public:
    struct Options {
        std::function<Instant()> now;
        OtlpSource source = {};
        std::size_t queue_max = 8'192;
        std::size_t batch_max = 512;  // Spans per request.
        std::chrono::milliseconds backoff_min{1'000};
        std::chrono::milliseconds backoff_max{60'000};
    };
    OtlpExporter(Options options, Log& log);
    ~OtlpExporter();
    OtlpExporter(const OtlpExporter&) = delete;
    OtlpExporter& operator=(const OtlpExporter&) = delete;

    // From now on. Without a URL nothing is sent, and what has not been sent yet is forgotten.
    void configure(const Otlp& where);
    void add(const EndedCall& call);
    OtlpStats stats() const;
    // Sends what there is, if the collector answers at once, and nothing from then on.
    void close();

 private:
    struct Answer {
        enum class Kind { taken, later, refused };
        Kind kind = Kind::later;
        std::string why = {};
        std::uint64_t rejected = 0;           // Of what was taken.
        std::chrono::milliseconds wait = {};  // What the collector asked for.
    };
    void run();
    // Both hold the lock, but not while they send.
    void round(std::unique_lock<std::mutex>& lock);
    bool send_spans(std::unique_lock<std::mutex>& lock, net::HttpClient& client, const Otlp& where);
    void send_histograms(std::unique_lock<std::mutex>& lock, net::HttpClient& client, const Otlp& where);
    Answer send(net::HttpClient& client, const Otlp& where, std::string_view path, std::string body) const;
    void note(const Answer& answer, std::string_view path, const Otlp& where);
    std::chrono::milliseconds patience() const;

    const Options options_;
    Log& log_;
    std::atomic<bool> on_ = false;

    mutable std::mutex mutex_;
    std::condition_variable wake_;
    Otlp where_ = {};
    bool changed_ = false;
    bool stopping_ = false;
    std::deque<TracedCall> queue_ = {};
    std::vector<TracedCall> batch_ = {};  // On its way; changed by the thread alone.
    CallDeltas dropped_ = {};             // What dropped spans would have told.
    Instant deltas_since_ = {};
    OtlpStats stats_ = {};
    std::map<std::string, std::string> complaints_ = {};  // The last one, by path.
    int failures_in_a_row_ = 0;
    std::chrono::milliseconds asked_to_wait_ = {};
    CallDeltas deltas_ = {};  // Of the thread alone.
    std::thread thread_;
};

}  // namespace interlock::gateway
