#include "core/row_table.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace interlock::core {
namespace {

constexpr OrgId acme{1};

TEST(TableKey, of_a_text_or_an_id_is_hashed_with_the_key_of_the_process) {
    const std::string name = "writer";
    EXPECT_EQ(KeyHash{}(name), keyed_hash(name));
    EXPECT_EQ(KeyHash{}(RunId(Id{.high = 1, .low = 2})), std::hash<Id>{}(Id{.high = 1, .low = 2}));
    EXPECT_NE(KeyHash{}(std::tuple(name, std::int64_t{1})), std::hash<std::string>{}(name));
}

// Sessions and cost events by id; counts how often it was asked.
class CountingSource final : public RowSource {
 public:
    bool load(OrgId org, ColdRow& row) override {
        ++asked;
        EXPECT_EQ(org, acme);
        if (fails) return false;
        if (auto* session = std::get_if<Session>(&row)) {
            const auto found = sessions.find(session->id);
            if (found == sessions.end()) return false;
            *session = found->second;
            return true;
        }
        if (auto* event = std::get_if<CostEvent>(&row)) {
            const auto found = events.find(event->key);
            if (found == events.end()) return false;
            *event = found->second;
            return true;
        }
        return false;
    }
    Amounts sum(OrgId, const Scope&, WindowSpan) override { return {}; }
    std::vector<OpenSessions> open_sessions(OrgId) override { return {}; }
    bool failed() const override { return fails; }

    bool fails = false;
    int asked = 0;
    std::map<SessionId, Session> sessions;
    std::map<CommandKey, CostEvent> events;
};

SessionId session_id(std::uint64_t number) { return SessionId(Id{1, number}); }
CommandKey event_key(std::uint64_t number) { return CommandKey(Id{2, number}); }

Session session_of(std::uint64_t number, const std::string& title) {
    Session row;
    row.id = session_id(number);
    row.title = title;
    return row;
}

class TableTest : public testing::Test {
 protected:
    TableTest() { source.sessions[session_id(1)] = session_of(1, "stored"); }

    struct Changes {
        std::map<SessionId, std::string> put;
        std::vector<SessionId> erased;
        int puts = 0;
    };
    Changes changes() const {
        Changes found;
        table.collect(
            [&](const Session& row) {
                found.put[row.id] = row.title;
                ++found.puts;
            },
            [&](const SessionId& id) { found.erased.push_back(id); });
        return found;
    }
    void commit(std::size_t rows_max = 100) {
        table.committed(rows_max, [](const Session& row) { return row.title == "keep"; });
    }

    CountingSource source;
    RowTable<Session> table{acme, source};
};

TEST_F(TableTest, a_cached_row_is_loaded_once) {
    ASSERT_NE(table.find(session_id(1)), nullptr);
    EXPECT_EQ(table.find(session_id(1))->title, "stored");

    EXPECT_EQ(source.asked, 1);
    EXPECT_EQ(table.find(session_id(2)), nullptr);
    EXPECT_FALSE(table.has_changes()) << "to read is no change";
}

TEST_F(TableTest, a_row_changed_many_times_in_a_batch_is_written_once) {
    for (int i = 0; i < 1000; ++i) table.edit(session_id(1)).title = std::to_string(i);

    EXPECT_TRUE(table.has_changes());
    EXPECT_EQ(changes().puts, 1);
    EXPECT_EQ(changes().put[session_id(1)], "999");
    commit();
    EXPECT_FALSE(table.has_changes());
    EXPECT_EQ(changes().puts, 0);
    EXPECT_EQ(table.find(session_id(1))->title, "999") << "what was committed is still known";
    EXPECT_EQ(source.asked, 1);
}

TEST_F(TableTest, an_inserted_row_is_there_at_once_and_is_written) {
    table.insert(session_of(2, "new"));

    EXPECT_EQ(table.find(session_id(2))->title, "new");
    EXPECT_EQ(changes().put, (std::map<SessionId, std::string>{{session_id(2), "new"}}));
    EXPECT_EQ(source.asked, 0);
}

TEST_F(TableTest, an_erased_row_is_gone_at_once_although_the_store_still_has_it) {
    table.erase(session_id(1));

    EXPECT_EQ(table.find(session_id(1)), nullptr);
    EXPECT_FALSE(table.look_up(session_id(1)));
    EXPECT_EQ(changes().erased, std::vector<SessionId>{session_id(1)});
    EXPECT_EQ(changes().puts, 0);
    source.sessions.clear();
    commit();
    EXPECT_EQ(table.find(session_id(1)), nullptr);
    EXPECT_FALSE(table.has_changes());
}

TEST_F(TableTest, a_row_erased_and_inserted_again_in_a_batch_is_put) {
    table.erase(session_id(1));
    table.insert(session_of(1, "again"));

    EXPECT_EQ(changes().erased.size(), 0u);
    EXPECT_EQ(changes().put, (std::map<SessionId, std::string>{{session_id(1), "again"}}));
    commit();
    EXPECT_EQ(table.find(session_id(1))->title, "again");
}

TEST_F(TableTest, a_row_inserted_and_erased_in_a_batch_is_not_put) {
    table.insert(session_of(2, "short"));
    table.erase(session_id(2));

    EXPECT_EQ(changes().puts, 0);
    EXPECT_EQ(changes().erased, std::vector<SessionId>{session_id(2)});
}

TEST_F(TableTest, a_row_is_edited_where_it_is_or_made) {
    table.edit_or_insert(session_id(1)).events += 1;
    table.edit_or_insert(session_id(2)).events += 1;
    table.edit_or_insert(session_id(2)).events += 1;

    EXPECT_EQ(table.find(session_id(1))->title, "stored");
    EXPECT_EQ(table.find(session_id(1))->events, 1);
    EXPECT_EQ(table.find(session_id(2))->events, 2);
    EXPECT_EQ(changes().puts, 2);
}

TEST_F(TableTest, a_row_that_was_looked_up_is_changed_without_another_look) {
    const auto ref = table.look_up(session_id(1));
    ASSERT_TRUE(ref);
    EXPECT_EQ(ref->title, "stored");
    EXPECT_FALSE(table.has_changes());

    table.edit(ref).title = "changed";

    EXPECT_EQ(changes().put[session_id(1)], "changed");
    EXPECT_FALSE(table.look_up(session_id(9)));
}

TEST_F(TableTest, clean_rows_are_dropped_when_there_are_too_many_but_for_those_to_keep) {
    for (std::uint64_t i = 10; i < 20; ++i) table.insert(session_of(i, i % 2 == 0 ? "keep" : "drop"));
    commit(100);
    EXPECT_EQ(table.size(), 10u) << "not too many";

    table.edit(session_id(11)).events = 5;
    commit(9);

    EXPECT_EQ(table.size(), 5u);
    source.asked = 0;
    EXPECT_NE(table.find(session_id(12)), nullptr);
    EXPECT_EQ(source.asked, 0);
    EXPECT_EQ(table.find(session_id(13)), nullptr) << "it asks the source, which never got it here";
    EXPECT_EQ(source.asked, 1);
}

TEST_F(TableTest, a_pointer_stays_good_while_others_come) {
    const Session* found = table.find(session_id(1));
    for (std::uint64_t i = 2; i < 5000; ++i) table.insert(session_of(i, "more"));

    EXPECT_EQ(found, table.find(session_id(1)));
    EXPECT_EQ(found->title, "stored");
}

TEST_F(TableTest, a_resident_row_is_never_asked_for_and_never_dropped) {
    RowTable<Agent> agents{acme, source};
    Agent ada;
    ada.name = "ada";
    agents.adopt(ada);

    EXPECT_EQ(agents.find("bob"), nullptr);
    EXPECT_NE(agents.find("ada"), nullptr);
    agents.committed(0, [](const Agent&) { return false; });

    EXPECT_NE(agents.find("ada"), nullptr);
    EXPECT_EQ(source.asked, 0);
    EXPECT_FALSE(agents.has_changes()) << "what the store had is not written back";
}

TEST_F(TableTest, rows_with_a_key_of_several_columns_are_told_apart) {
    RowTable<Window> windows{acme, source};
    windows.edit_or_insert({"day", from_micros(1)}).settled = 1;
    windows.edit_or_insert({"day", from_micros(2)}).settled = 2;
    windows.edit_or_insert({"month", from_micros(1)}).settled = 3;

    EXPECT_EQ(windows.find({"day", from_micros(1)})->settled, 1);
    EXPECT_EQ(windows.find({"day", from_micros(2)})->settled, 2);
    EXPECT_EQ(windows.find({"month", from_micros(1)})->settled, 3);
    EXPECT_EQ(windows.find({"month", from_micros(1)})->budget, "month") << "made with its key";
}

TEST_F(TableTest, a_source_that_cannot_answer_is_not_taken_for_one_that_says_no) {
    Journal<CostEvent> journal{acme, source};
    table.find(session_id(1));
    source.fails = true;

    EXPECT_NE(table.find(session_id(1)), nullptr) << "what is in memory is not asked for";
    EXPECT_THROW(table.find(session_id(2)), SourceFailed);
    EXPECT_THROW(table.look_up(session_id(2)), SourceFailed);
    EXPECT_THROW(table.edit(session_id(2)), SourceFailed);
    EXPECT_THROW(table.edit_or_insert(session_id(2)), SourceFailed);
    EXPECT_THROW(journal.find(event_key(1)), SourceFailed);
}

using TableDeathTest = TableTest;

TEST_F(TableDeathTest, a_row_that_is_not_there_cannot_be_edited_nor_one_that_is_be_inserted) {
    EXPECT_DEATH(table.edit(session_id(9)), "only rows that are there are edited");
    EXPECT_DEATH(table.erase(session_id(9)), "only rows that are there are edited");
    table.find(session_id(1));
    EXPECT_DEATH(table.insert(session_of(1, "again")), "only rows that are not there are inserted");
}

// ---- journals -----------------------------------------------------------------------------------------------------

TEST_F(TableTest, a_journal_finds_its_batch_first_and_then_the_store) {
    Journal<CostEvent> journal{acme, source};
    source.events[event_key(1)].key = event_key(1);
    source.events[event_key(1)].cost = 10;

    CostEvent& added = journal.add();
    added.key = event_key(2);
    added.cost = 20;

    EXPECT_EQ(journal.find(event_key(2))->cost, 20);
    EXPECT_EQ(source.asked, 0);
    EXPECT_EQ(journal.find(event_key(1))->cost, 10);
    EXPECT_FALSE(journal.find(event_key(3)).has_value());
    ASSERT_EQ(journal.rows().size(), 1u);
    journal.committed();
    EXPECT_TRUE(journal.rows().empty());
    EXPECT_FALSE(journal.find(event_key(2)).has_value()) << "from now on it is the store's to know";
}

}  // namespace
}  // namespace interlock::core
