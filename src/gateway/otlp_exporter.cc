#include "gateway/otlp_exporter.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <boost/json.hpp>

namespace interlock::gateway {
namespace json = boost::json;
namespace {

using std::chrono::milliseconds;

// Short enough that a server which has to stop is not kept by a collector that does not answer.
constexpr milliseconds connect_timeout{2'000};
constexpr milliseconds answer_timeout{5'000};
constexpr std::string_view traces_path = "/v1/traces";
constexpr std::string_view metrics_path = "/v1/metrics";
constexpr std::size_t answer_bytes_max = 1u << 20;

// "5"; a date is not worth reading for an hour at most.
milliseconds retry_after(const net::ClientResponse& response) {
    const std::string_view text = response.header("retry-after");
    std::int64_t seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    const bool is_number = error == std::errc() && end == text.data() + text.size() && !text.empty();
    return milliseconds(is_number ? std::clamp<std::int64_t>(seconds, 0, 3'600) * 1'000 : 0);
}

// {"partialSuccess":{"rejectedSpans":"3"}}: the number may be written as text.
std::uint64_t rejected_in(std::string_view body) {
    boost::system::error_code error;
    const json::value answer = json::parse(body, error);
    if (error) return 0;
    const json::value* rejected = answer.find_pointer("/partialSuccess/rejectedSpans", error);
    if (rejected == nullptr) return 0;
    std::uint64_t number = 0;
    if (const json::string* text = rejected->if_string()) {
        std::from_chars(text->data(), text->data() + text->size(), number);
    } else if (rejected->is_number()) {
        number = rejected->to_number<std::uint64_t>(error);
    }
    return number;
}

}  // namespace

OtlpExporter::OtlpExporter(Options options, Log& log)
    : options_(std::move(options)), log_(log), thread_([this] { run(); }) {}

OtlpExporter::~OtlpExporter() { close(); }

void OtlpExporter::close() {
    on_ = false;
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void OtlpExporter::configure(const Otlp& where) {
    const Instant now = options_.now();
    const std::lock_guard lock(mutex_);
    if (where == where_ || stopping_) return;
    if (where_.url.empty()) deltas_since_ = now;
    where_ = where;
    changed_ = true;
    on_ = !where.url.empty();
    wake_.notify_all();
}

void OtlpExporter::add(const EndedCall& call) {
    if (!on_.load(std::memory_order_relaxed)) return;
    TracedCall traced{call.row, read_traceparent(call.traceparent), call.end};
    const std::lock_guard lock(mutex_);
    if (queue_.size() + batch_.size() >= options_.queue_max) {
        ++stats_.dropped;
        dropped_.add(call.row, call.end);
        return;
    }
    queue_.push_back(std::move(traced));
    if (queue_.size() == options_.queue_max / 2) wake_.notify_one();
}

OtlpStats OtlpExporter::stats() const {
    const std::lock_guard lock(mutex_);
    OtlpStats stats = stats_;
    stats.queued = queue_.size() + batch_.size();
    return stats;
}

void OtlpExporter::run() {
    std::unique_lock lock(mutex_);
    for (bool last = false; !last;) {
        wake_.wait_for(lock, patience(), [this] {
            const bool is_filling = failures_in_a_row_ == 0 && queue_.size() >= options_.queue_max / 2;
            return stopping_ || changed_ || is_filling;
        });
        last = stopping_;
        // A new address may be a better one. The last round is not for a collector that was not there before.
        if (std::exchange(changed_, false)) failures_in_a_row_ = 0;
        if (!last || failures_in_a_row_ == 0) round(lock);
    }
}

milliseconds OtlpExporter::patience() const {
    if (failures_in_a_row_ == 0) return std::chrono::seconds(where_.interval_s);
    const milliseconds backoff = options_.backoff_min * (1 << std::min(failures_in_a_row_ - 1, 16));
    return std::max(std::min(backoff, options_.backoff_max), asked_to_wait_);
}

void OtlpExporter::round(std::unique_lock<std::mutex>& lock) {
    const Otlp where = where_;
    const auto url = net::parse_url(where.url);
    if (!url) {
        queue_.clear();
        batch_.clear();
        deltas_ = {};
        dropped_ = {};
        return;
    }
    // A connection that was kept would often be closed by the next time, and a POST is not repeated by itself.
    net::HttpClient client(*url, {.connect_timeout = connect_timeout,
                                  .total_timeout = answer_timeout,
                                  .body_bytes_max = answer_bytes_max,
                                  .public_only = where.public_only});
    if (send_spans(lock, client, where)) send_histograms(lock, client, where);
}

// Those that were there when it began: what comes meanwhile does not keep the histograms back.
bool OtlpExporter::send_spans(std::unique_lock<std::mutex>& lock, net::HttpClient& client, const Otlp& where) {
    const auto last_call = std::chrono::steady_clock::now() + answer_timeout;
    std::size_t left = queue_.size() + batch_.size();
    while (left > 0) {
        if (stopping_ && std::chrono::steady_clock::now() > last_call) return false;
        const std::size_t counted = batch_.size();
        while (batch_.size() < options_.batch_max && !queue_.empty()) {
            batch_.push_back(std::move(queue_.front()));
            queue_.pop_front();
        }
        lock.unlock();
        for (std::size_t i = counted; i < batch_.size(); ++i) deltas_.add(batch_[i].row, batch_[i].end);
        const Answer answer = send(client, where, traces_path, trace_document(options_.source, batch_));
        lock.lock();
        note(answer, traces_path, where);
        if (answer.kind == Answer::Kind::later) return false;
        const std::uint64_t rejected = answer.kind == Answer::Kind::refused
                                           ? batch_.size()
                                           : std::min(answer.rejected, std::uint64_t{batch_.size()});
        stats_.dropped += rejected;
        stats_.sent += batch_.size() - rejected;
        left -= std::min(left, batch_.size());
        batch_.clear();
    }
    return true;
}

void OtlpExporter::send_histograms(std::unique_lock<std::mutex>& lock, net::HttpClient& client, const Otlp& where) {
    deltas_.add(std::exchange(dropped_, {}));
    if (deltas_.empty()) return;
    const Instant since = deltas_since_;
    lock.unlock();
    const Instant now = options_.now();
    const Answer answer = send(client, where, metrics_path, deltas_.document(options_.source, since, now));
    lock.lock();
    note(answer, metrics_path, where);
    if (answer.kind == Answer::Kind::later) return;
    deltas_ = {};
    deltas_since_ = now;
}

OtlpExporter::Answer OtlpExporter::send(net::HttpClient& client, const Otlp& where, std::string_view path,
                                        std::string body) const {
    net::ClientRequest request{.method = net::Method::post, .target = ""};
    const auto url = net::parse_url(where.url);
    if (url && url->target != "/") request.target = url->target;
    request.target += path;
    for (const auto& [name, value] : where.headers) request.headers.push_back({name, value});
    request.headers.push_back({"content-type", "application/json"});
    request.body = std::move(body);
    const auto response = client.request(std::move(request));
    if (!response) return {.kind = Answer::Kind::later, .why = response.error().detail};
    const int status = response->status;
    if (status >= 200 && status < 300) return {.kind = Answer::Kind::taken, .rejected = rejected_in(response->body)};
    const bool later = status == 429 || status == 408 || status >= 500;
    return {.kind = later ? Answer::Kind::later : Answer::Kind::refused,
            .why = fmt::format("answered {}", status),
            .wait = retry_after(*response)};
}

// Said once when it begins and once when it is over: it may last for days.
void OtlpExporter::note(const Answer& answer, std::string_view path, const Otlp& where) {
    std::string& complaint = complaints_[std::string(path)];
    const std::string url = where.url + std::string(path);
    if (answer.kind == Answer::Kind::taken) {
        if (!complaint.empty()) log_.info("otlp_goes_on", {{"url", url}});
    } else {
        ++stats_.failures;
        if (complaint != answer.why) log_.warn("otlp_not_taken", {{"url", url}, {"why", answer.why}});
    }
    complaint = answer.why;
    const bool later = answer.kind == Answer::Kind::later;
    failures_in_a_row_ = later ? failures_in_a_row_ + 1 : 0;
    asked_to_wait_ = answer.wait;
}

}  // namespace interlock::gateway
