// Changes to a request's body: text is spliced, nothing is written anew.
//
//   (1) Every byte that no change names stays as it came.
//   (2) A member that is set is there once, under one name: a reader finds no second one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace interlock::gateway {

// A part of the body: [begin, end). Empty: it is not there.
struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool empty() const { return begin == end; }
};

// A member of an object: its name with the quotes, and its value.
struct MemberAt {
    Span name = {};
    Span value = {};
    bool empty() const { return value.empty(); }
};

class BodyEdit {
 public:
    // The body begins an object, and every place that is named lies in it.
    explicit BodyEdit(std::string_view body) : body_(body) {}

    // Where the outer object begins.
    std::size_t brace() const { return body_.find('{'); }
    bool is_null(Span value) const { return body_[value.begin] == 'n'; }

    void replace(Span at, std::string text) { splices_.push_back({.at = at, .text = std::move(text)}); }
    // The one way to set a member: it replaces name and value where the object has the member, under any spelling and
    // with any value, and is put first where the object has none.
    void set_member(std::size_t brace, const MemberAt& at, std::string_view name, std::string_view value);
    // Takes a member out that is not the only one of its object, with one of the commas beside it.
    void remove_member(const MemberAt& at);

    // The body with all changes.
    std::string result() &&;

 private:
    struct Splice {
        Span at;  // The text that goes; empty: none does, and the new text is put before at.begin.
        std::string text;
    };

    const std::string_view body_;
    std::vector<Splice> splices_;
};

}  // namespace interlock::gateway
