#include "core/command.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>

#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>
#include <boost/pfr.hpp>

#include "base/codec.h"
#include "core/event.h"
#include "core/leaves_test_support.h"
#include "core/reply.h"

namespace interlock::core {
namespace {

// Calls `check` with a default value of each alternative.
template <class Variant, class Check>
void for_each_kind(Check check) {
    boost::mp11::mp_for_each<boost::mp11::mp_iota_c<std::variant_size_v<typename Variant::Kinds>>>([&](auto index) {
        SCOPED_TRACE("alternative " + std::to_string(index.value));
        check(Variant(std::in_place_index<index.value>));
    });
}

template <class Variant>
void expect_round_trip() {
    for_each_kind<Variant>([](const Variant& empty) {
        Variant full = empty;
        fill_leaves(full);

        for (const Variant& before : {empty, full}) {
            const std::string bytes = encode(before);
            const auto after = decode<Variant>(bytes);
            ASSERT_TRUE(after.has_value());
            EXPECT_EQ(after->index(), before.index());
            EXPECT_EQ(leaf_texts(*after), leaf_texts(before));
            EXPECT_EQ(encode(*after), bytes);
        }
    });
}

TEST(CommandTest, every_command_comes_back_from_its_bytes_as_it_was) { expect_round_trip<CommandBody>(); }
TEST(CommandTest, every_reply_comes_back_from_its_bytes_as_it_was) { expect_round_trip<Reply>(); }
TEST(CommandTest, every_event_comes_back_from_its_bytes_as_it_was) { expect_round_trip<Event>(); }

// The command without the ids of what it makes and without who asks.
CommandBody without_made_ids(CommandBody body) {
    if (auto* charge = std::get_if<Charge>(&body)) charge->who.api_key = {};
    if (auto* admit = std::get_if<AdmitRun>(&body)) {
        admit->run = {}, admit->who.api_key = {};
        for (Place& place : admit->places) place.chain.clear();
        if (admit->isolate_into) admit->isolate_into->chain.clear();
        if (admit->worktrees) admit->worktrees->chain.clear();
        admit->repository.clear(), admit->names_server = false, admit->by = {};
    }
    if (auto* put = std::get_if<PutAgent>(&body)) put->resolved_roots.clear();
    if (auto* create = std::get_if<CreateKey>(&body)) create->id = create->hash = {};
    if (auto* reserve = std::get_if<Reserve>(&body))
        reserve->hold = {}, reserve->who.api_key = {}, reserve->by_gateway = false;
    if (auto* extend = std::get_if<ExtendHold>(&body)) extend->by = {};
    if (auto* settle = std::get_if<SettleHold>(&body)) settle->by = {};
    if (auto* release = std::get_if<ReleaseHold>(&body)) release->by = {};
    if (auto* create = std::get_if<CreateSession>(&body)) create->session = {}, create->api_key = {};
    if (auto* fork = std::get_if<ForkSession>(&body)) fork->session = {}, fork->api_key = {};
    if (auto* wake = std::get_if<Wake>(&body)) wake->run = {};
    if (auto* append = std::get_if<Append>(&body)) {
        for (NewMessage& message : append->messages) message.id = {};
    }
    return body;
}

TEST(CommandTest, any_member_that_differs_gives_another_fingerprint_but_for_made_ids_and_who_asks) {
    std::size_t made_ids = 0;
    std::map<std::uint64_t, std::string> seen;
    const auto expect_new = [&](const CommandBody& body, const std::string& what) {
        const auto [other, is_new] = seen.emplace(fingerprint_of(body), what);
        EXPECT_TRUE(is_new) << what << " has the fingerprint of " << other->second;
        EXPECT_EQ(fingerprint_of(CommandBody(body)), fingerprint_of(body)) << "the same content, the same number";
    };

    for_each_kind<CommandBody>([&](const CommandBody& empty) {
        CommandBody full = empty;
        fill_leaves(full);
        const std::string kind = "kind " + std::to_string(empty.index());
        expect_new(empty, kind + " empty");
        if (leaf_texts(empty).empty()) return;
        expect_new(full, kind + " full");
        std::uint64_t number = 0;
        for (CommandBody changed = full; change_leaf(changed, number); changed = full, ++number) {
            EXPECT_NE(leaf_texts(changed), leaf_texts(full)) << kind << " leaf " << number << " was not changed";
            if (leaf_texts(without_made_ids(changed)) == leaf_texts(without_made_ids(full))) {
                ++made_ids;
                EXPECT_EQ(fingerprint_of(changed), fingerprint_of(full)) << kind << " leaf " << number;
                continue;
            }
            if (leaf_texts(changed) == leaf_texts(empty)) continue;  // Its one list, emptied.
            expect_new(changed, kind + " leaf " + std::to_string(number));
        }
    });

    EXPECT_GT(seen.size(), 250u) << "all members of all commands were there";
    EXPECT_EQ(made_ids, 37u) << "a key has an id and a secret, lists have two items here, four actors have three "
                                "members, three have an API key";
}

TEST(CommandTest, only_a_command_that_sums_the_ledger_must_be_the_first_of_its_batch) {
    std::set<std::size_t> reading;
    for_each_kind<CommandBody>([&](const CommandBody& body) {
        if (reads_ledger(body)) reading.insert(body.index());
    });

    EXPECT_EQ(reading, (std::set<std::size_t>{CommandBody(PutBudget()).index()}));
}

// ---- a member that is not described would be neither stored, sent nor compared -------------------------------------

template <class T>
constexpr bool all_described =
    boost::pfr::tuple_size_v<T> ==
    boost::mp11::mp_size<boost::describe::describe_members<T, boost::describe::mod_any_access>>::value;

template <class... T>
constexpr bool all_described_in(std::type_identity<std::variant<T...>>) {
    return (all_described<T> && ...);
}
template <class... T>
constexpr bool all_described_in(std::type_identity<std::tuple<T...>>) {
    return (all_described<T> && ...);
}

static_assert(all_described_in(std::type_identity<CommandBody::Kinds>()));
static_assert(all_described_in(std::type_identity<Reply::Kinds>()));
static_assert(all_described_in(std::type_identity<Event::Kinds>()));
static_assert(all_described_in(std::type_identity<AllRows>()));
static_assert(all_described<Amounts> && all_described<Attribution> && all_described<Scope> && all_described<Place>);
static_assert(all_described<AgentPause> && all_described<HoldPart> && all_described<Usage> &&
              all_described<NewMessage>);
static_assert(all_described<FinalCharge> && all_described<BudgetRefusal> && all_described<BlockingRun>);

}  // namespace
}  // namespace interlock::core
