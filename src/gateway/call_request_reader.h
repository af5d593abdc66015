// The reading of a request's body: what all dialects share of it. The members that one dialect has are read by a class
// that derives from this one, in its file in gateway/dialects/.
//
// One pass over the text. The members of the top level are the dialect's to read; everything else passes through
// look(), which knows images, files, references and cache marks wherever they stand.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "gateway/call_request.h"
#include "gateway/json_reader.h"

namespace interlock::gateway {

class CallRequestReader {
 public:
    using Names = std::span<const std::string_view>;
    struct Traits {
        std::string_view messages_member = {};  // Has the conversation; empty: no member has.
        // Members that say what a client's tools take and give. Nothing in them is looked at.
        Names opaque = {};
        bool names_model = true;            // In the body; otherwise the path does.
        bool has_short_references = false;  // {"id": "msg_1"} in the conversation stands for a message kept elsewhere.
    };

    CallRequestReader(const ModelRoute& route, std::string_view body, Traits traits)
        : route_(route), body_(body), traits_(traits), json_(body, TwiceTheSameKey::refused) {}
    virtual ~CallRequestReader() = default;

    Result<CallRequest, std::string> read();

 protected:
    // Reads the value of a member of the top level, or leaves it to look().
    virtual void member(std::string_view key) = 0;
    // All members were read: what follows from several of them, and what must be there.
    virtual void complete() {}

    // Any value of a member of that name.
    void look(std::string_view name);
    void cache_control();
    // An array of messages: a boundary behind each. What is no array is one message, and no boundary.
    void messages(std::string_view name);
    bool is_opaque(std::string_view key) const;
    // A member by which a router would choose another model, provider or payer. It is refused.
    bool is_for_a_router(std::string_view key);

    // Of the value that comes next. Null is as good as absent.
    bool null_or_absent();
    std::string_view word();  // A string, valid until the next word(); empty: it is none, and skipped.
    std::optional<std::int64_t> whole(std::string_view name, std::int64_t least);
    void output_max(std::string_view name);
    // Of the member whose value comes next; its end is not known yet.
    MemberAt member_at();
    void flag(std::string_view name, bool& value);
    void response_modalities();
    void elsewhere();
    void refuse(std::string problem);

    const ModelRoute& route_;
    const std::string_view body_;
    const Traits traits_;
    JsonReader json_;
    CallRequest request_;

 private:
    void read_member(std::string_view key);
    void refuse_what_is_missing();
    // What a member of the top level means for counting the prompt (call_request_prompt.cc).
    void note_for_prompt(std::string_view key, Span member, std::string_view value);
    void look_at_object(std::string_view name);
    struct Part;
    void look_at_member(std::string_view name, std::string_view key, Part& part);
    void count(std::string_view name, const Part& part);
    Counted counted_so_far() const;

    std::string problem_;
    std::string word_;
    Counted counted_;         // input_bytes is what is *not* to be counted.
    std::string_view limit_;  // The name of the output limit that was stated.
    bool sources_by_address_ = false;
};

}  // namespace interlock::gateway
