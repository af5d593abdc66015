#include "core/feed.h"

#include <array>
#include <cstring>

#include "base/codec.h"
#include "base/ensure.h"

namespace interlock::core {
namespace {

constexpr std::size_t length_bytes = 4;

// Bytes of an event whose names are short. To append each member to the page by itself takes twice as long.
class ShortBytes {
 public:
    void push_back(char byte) { bytes_[size_++] = byte; }
    void append(const char* bytes, std::size_t size) {
        std::memcpy(bytes_.data() + size_, bytes, size);
        size_ += size;
    }
    void append(std::string_view text) { append(text.data(), text.size()); }
    std::string_view written() const { return {bytes_.data(), size_}; }

 private:
    std::array<char, 1024> bytes_;
    std::size_t size_ = 0;
};
constexpr std::size_t short_names_bytes = 512;  // Numbers, ids and lengths take less than the other half.

void put_charged(auto& out, const CostEvent& event, std::int64_t tokens) {
    static_assert(std::is_same_v<std::variant_alternative_t<0, Event::Kinds>, Charged>, "its index is written by hand");
    out.push_back('\0');
    // The members of Charged, in their order; feed_test.cc reads them back.
    BasicEncoder encoder(out);
    encoder.put(event.key);
    encoder.put(event.who.agent);
    encoder.put(event.who.provider);
    encoder.put(event.who.model);
    encoder.put(event.who.run);
    encoder.put(event.who.session);
    encoder.put(event.hold);
    encoder.put(event.cost);
    encoder.put(tokens);
    encoder.put(event.overage);
    encoder.put(event.estimated);
}

template <class Encode>
void add_framed(std::string& body, Encode encode_event) {
    const std::size_t start = body.size();
    body.append(length_bytes, '\0');
    encode_event(body);
    const auto length = static_cast<std::uint32_t>(body.size() - start - length_bytes);
    std::memcpy(body.data() + start, &length, sizeof length);
}

std::string_view bytes_of(const std::int64_t& number) {
    return {reinterpret_cast<const char*>(&number), sizeof number};
}

}  // namespace

Seq Feed::add(const Event& event) {
    add_framed(body_, [&](std::string& body) { Encoder(body).put(event); });
    ++count_;
    return last_seq();
}

Seq Feed::add_charged(const CostEvent& event, std::int64_t tokens) {
    const Attribution& who = event.who;
    if (who.agent.size() + who.provider.size() + who.model.size() <= short_names_bytes) {
        ShortBytes bytes;
        put_charged(bytes, event, tokens);
        const auto length = static_cast<std::uint32_t>(bytes.written().size());
        body_.append(reinterpret_cast<const char*>(&length), sizeof length).append(bytes.written());
    } else {
        add_framed(body_, [&](std::string& body) { put_charged(body, event, tokens); });
    }
    ++count_;
    return last_seq();
}

FeedPage& Feed::seal(Instant at) {
    ensure(count_ > 0, "a page has events");
    page_.first_seq = Seq(head_.last_seq.value + 1);
    page_.last_seq = last_seq();
    page_.at = std::max(at, head_.at);  // Invariant (4), also when the clock was set back across a restart.
    page_.body.swap(body_);
    const Sha256 hash = hash_page(head_.hash, page_);
    page_.hash.assign(hash.begin(), hash.end());

    head_.first_seq = page_.first_seq;
    head_.last_seq = page_.last_seq;
    head_.at = page_.at;
    head_.hash = page_.hash;
    body_.clear();
    count_ = 0;
    return page_;
}

void Feed::adopt(const FeedPage& last) {
    head_ = last;
    head_.body.clear();
    head_.digests.clear();
}

Sha256 hash_page(std::string_view hash_before, const FeedPage& page) {
    static const std::string zeros(32, '\0');
    const std::int64_t at = micros(page.at);
    return Sha256Hasher()
        .add(hash_before.empty() ? std::string_view(zeros) : hash_before)
        .add(bytes_of(page.first_seq.value))
        .add(bytes_of(page.last_seq.value))
        .add(bytes_of(at))
        .add(page.body)
        .finish();
}

std::optional<std::vector<Event>> events_of(const FeedPage& page) {
    std::vector<Event> events;
    std::string_view rest = page.body;
    while (!rest.empty()) {
        std::uint32_t length = 0;
        if (rest.size() < sizeof length) return std::nullopt;
        std::memcpy(&length, rest.data(), sizeof length);
        rest.remove_prefix(sizeof length);
        if (rest.size() < length) return std::nullopt;
        auto event = decode<Event>(rest.substr(0, length));
        if (!event) return std::nullopt;
        events.push_back(std::move(*event));
        rest.remove_prefix(length);
    }
    return events;
}

}  // namespace interlock::core
