#include "sim/call.h"

#include <boost/describe/enumerators.hpp>
#include <boost/mp11/algorithm.hpp>

namespace interlock::sim {
namespace {

template <class T>
concept HasStatus = requires(const T& value) { value.status; };

// The name of a struct, without what it is nested in.
template <class T>
std::string type_name() {
    std::string_view name = __PRETTY_FUNCTION__;
    name = name.substr(name.rfind("T = ") + 4);
    name.remove_suffix(1);
    if (const auto colons = name.rfind("::"); colons != std::string_view::npos) name.remove_prefix(colons + 2);
    return std::string(name);
}

}  // namespace

bool says_done(const core::Reply& reply) {
    return std::visit(
        []<class T>(const T& value) {
            if constexpr (HasStatus<T>) {
                using Status = decltype(value.status);
                if constexpr (requires { Status::invalid_request; }) return value.status < Status::invalid_request;
            }
            return std::is_same_v<T, core::TickReply>;
        },
        reply);
}

Outcome outcome_of(const engine::SubmitResult& answer) {
    if (!answer) return {outcome_kinds - 1, static_cast<std::size_t>(answer.error())};
    const auto status = std::visit(
        []<class T>(const T& value) -> std::size_t {
            if constexpr (HasStatus<T>) return static_cast<std::size_t>(value.status);
            return 0;
        },
        answer->reply);
    return {answer->reply.index(), status};
}

namespace {

// Calls `each` with the kind, the status and the name of every outcome there is.
template <class Each>
void for_each_outcome(Each each) {
    const auto each_status = [&]<class Status>(std::size_t kind, const std::string& type, Status) {
        boost::mp11::mp_for_each<boost::describe::describe_enumerators<Status>>([&](auto enumerator) {
            each(Outcome{kind, static_cast<std::size_t>(enumerator.value)}, type + '.' + enumerator.name);
        });
    };
    std::size_t kind = 0;
    boost::mp11::mp_for_each<boost::mp11::mp_transform<std::type_identity, core::Reply::Kinds>>([&]<class T>(T) {
        using Type = typename T::type;
        if constexpr (HasStatus<Type>) {
            each_status(kind, type_name<Type>(), Type{}.status);
        } else {
            each(Outcome{kind, 0}, type_name<Type>());
        }
        ++kind;
    });
    each_status(kind, "SubmitError", engine::SubmitError{});
}

}  // namespace

std::vector<Outcome> all_outcomes() {
    std::vector<Outcome> all;
    for_each_outcome([&](Outcome outcome, const std::string&) { all.push_back(outcome); });
    return all;
}

std::string name_of(Outcome wanted) {
    std::string found;
    for_each_outcome([&](Outcome outcome, const std::string& name) {
        if (outcome.kind == wanted.kind && outcome.status == wanted.status) found = name;
    });
    return found;
}

std::string kind_of(const core::Command& command) {
    return std::visit([]<class T>(const T&) { return type_name<T>(); }, command.body);
}

}  // namespace interlock::sim
