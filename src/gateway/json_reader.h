// Reads a JSON text from front to back, once, and says where in it each thing stands.
//
//   (1) What was read without failing is JSON by RFC 8259, every byte of it, also where it was skipped. Two further
//       doubts are refused: half of a surrogate pair, and a number too long for anybody's arithmetic.
//   (2) Nothing is nested deeper than depth_max, so a text cannot exhaust the stack.
//   (3) Nothing behind the text is read, and nothing is copied but keys with escapes in them.
//   (4) An object whose keys are compared has at most members_max of them, and the time for a text grows with its size
//       whatever it is: keys are hashed with a secret key.
//   (5) After a failure every call fails, and at() says where it was.
//
// simdjson's own readers are faster, but its on-demand reader does not validate what it skips and its tree does not
// know where things stood, and both are what metering needs: the text is edited in place, and what is forwarded must be
// what was understood. UTF-8 is not checked here (simdjson::validate_utf8 does that for a whole text).
#pragma once

#include <array>
#include <cstdint>
#include <forward_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/unordered/unordered_flat_set.hpp>

#include "base/keyed_hash.h"

namespace interlock::gateway {

enum class JsonKind { object, array, string, number, boolean, null, none };
enum class TwiceTheSameKey { allowed, refused };

class JsonReader {
 public:
    static constexpr int depth_max = 200;
    static constexpr std::size_t number_bytes_max = 64;
    // Of an object that is looked at. Shapes of tools and what tools say may have more: those are skipped. The greatest
    // object of a real request is a logit_bias, with some hundreds.
    static constexpr std::size_t members_max = 4'096;

    explicit JsonReader(std::string_view text, TwiceTheSameKey twice = TwiceTheSameKey::allowed)
        : text_(text), twice_(twice) {}

    // What comes next; none: nothing that begins a value.
    JsonKind kind();
    // Where the next value begins, or where reading failed.
    std::size_t at() const { return at_; }
    // Where the name of the member that was begun last stands, with its quotes.
    std::size_t name_begin() const { return name_begin_; }
    std::size_t name_end() const { return name_end_; }
    bool failed() const { return !why_.empty(); }
    std::string_view why() const { return why_; }  // "is not valid JSON", as the end of a sentence.
    // Nothing but white space is left.
    bool finished();

    // Calls on_member(key) for each member, with the value next; a value that it does not read is skipped. The key is
    // valid until the object ends. False: it is no object, or failed.
    template <class OnMember>
    bool each_member(OnMember&& on_member);
    template <class OnElement>
    bool each_element(OnElement&& on_element);

    // The value as it stands in the text; empty: failed.
    std::string_view skip();
    // What stands between the quotes of the string that comes next, escapes as they are. Nothing, and skipped: it is no
    // string.
    std::optional<std::string_view> raw_string();
    // The same, decoded, at most so many bytes of it (cut between characters).
    std::optional<std::string> string(std::size_t bytes_max = SIZE_MAX);
    // A whole number, written without point and exponent, that fits. Nothing, and skipped: it is none.
    std::optional<std::int64_t> whole_number();
    std::optional<bool> boolean();

 private:
    // The keys of one object. Most objects have few.
    class Keys {
     public:
        bool add(std::string_view key);  // False: it was there.
        std::size_t count() const { return count_; }

     private:
        std::array<std::string_view, 12> few_;
        std::size_t count_ = 0;
        boost::unordered_flat_set<std::string_view, KeyedTextHash> many_;
    };

    void blanks();
    bool fail(std::string_view why);
    bool open(char bracket);
    // Behind a value: true, another one follows; false, the container is closed or the text is wrong.
    bool another(char closing);
    bool key(std::string_view& key);
    bool skip_value();
    bool skip_string();
    bool skip_escape();
    bool skip_number();
    bool skip_word(std::string_view word);
    std::optional<unsigned> hex4(std::size_t at) const;

    std::string_view text_;
    TwiceTheSameKey twice_;
    std::size_t at_ = 0;
    std::size_t name_begin_ = 0;
    std::size_t name_end_ = 0;
    int depth_ = 0;
    bool escaped_ = false;  // The last string that was skipped has an escape in it.
    std::string_view why_;
    std::forward_list<std::string> decoded_keys_;
};

// Decodes what stands between the quotes of a string that a JsonReader has read.
std::string decoded(std::string_view raw, std::size_t bytes_max = SIZE_MAX);
// `text` cut to at most so many bytes, between two characters.
std::string_view cut_to(std::string_view text, std::size_t bytes_max);

// ---- inline, because every member of every body passes here ---------------------------------------------------------

template <class OnMember>
bool JsonReader::each_member(OnMember&& on_member) {
    if (!open('{')) return false;
    Keys keys;
    bool more = text_[at_] != '}' || another('}');
    while (more) {
        std::string_view name;
        if (!key(name)) return false;
        if (twice_ == TwiceTheSameKey::refused) {
            if (keys.count() == members_max) return fail("has an object with more than 4096 members");
            if (!keys.add(name)) return fail("has an object with the same key twice");
        }
        const std::size_t value_at = at_;
        on_member(name);
        if (!failed() && at_ == value_at) skip_value();
        more = another('}');
    }
    return !failed();
}

template <class OnElement>
bool JsonReader::each_element(OnElement&& on_element) {
    if (!open('[')) return false;
    bool more = text_[at_] != ']' || another(']');
    while (more) {
        blanks();
        const std::size_t value_at = at_;
        on_element();
        if (!failed() && at_ == value_at) skip_value();
        more = another(']');
    }
    return !failed();
}

}  // namespace interlock::gateway
