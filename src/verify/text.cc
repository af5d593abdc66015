#include "verify/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/strict_json.h"
#include "base/text.h"

namespace interlock::verify {
namespace {

enum class KeyKind { id, number, name };

struct KeyColumn {
    std::string_view name;
    KeyKind kind = KeyKind::id;
};

struct TextColumns {
    Promise promise;
    std::string_view table;
    std::vector<KeyColumn> key;
    std::vector<std::string_view> texts;
    std::string_view json_object = {};
};

const std::vector<TextColumns>& text_tables() {
    using enum Promise;
    using enum KeyKind;
    // What the ledger's rows have beside these is in the roll-ups too, where each name is once a day.
    static const std::vector<TextColumns> tables{
        {exact_ledger, "rollups", {{"day", number}, {"agent", name}, {"provider", name}, {"model", name}}, {}},
        {exact_ledger, "ledger_details", {{"key"}}, {"workflow", "api_key", "tags", "price"}},
        {exact_ledger,
         "model_calls",
         {{"id"}},
         {"agent", "workflow", "provider", "model", "tags", "operation", "upstream", "refusal", "price", "detail"}},
        {exact_ledger, "holds", {{"id"}}, {"agent", "workflow", "provider", "model", "tags"}},
        {one_order, "sessions", {{"id"}}, {"agent", "title"}, "metadata"},
        {one_order, "messages", {{"session"}, {"seq", number}}, {"content"}, "metadata"},
        {one_worker_per_place, "claims", {{"run"}, {"number", number}}, {"host", "path"}},
        {one_worker_per_place,
         "worktrees",
         {{"run"}},
         {"node", "repository", "path", "branch", "base", "teardown", "saved_as"}},
        {nobody_forgotten,
         "runs",
         {{"id"}},
         {"agent", "workflow", "provider", "model", "tags", "node", "wanted", "stop_requested", "reason", "name"}},
        {nobody_forgotten, "run_steps", {{"run"}, {"number", number}}, {"reason"}},
        {nobody_forgotten, "launches", {{"run"}}, {"process"}},
        {nobody_forgotten,
         "agents",
         {{"name", name}},
         {"command", "tags", "pauses", "process", "workplace", "provider"}},
        {nobody_forgotten, "api_keys", {{"id", name}}, {"note"}},
        {nobody_forgotten, "settings", {{"kind", name}, {"name", name}}, {"document"}},
        {one_tick, "schedules", {{"name", name}}, {"places", "node", "worktrees"}},
        {one_tick, "ticks", {{"schedule", name}, {"number", number}}, {"reason"}},
    };
    return tables;
}

void check_table(std::int64_t org, const TextColumns& table, SnapshotReader& reader, Findings& findings) {
    std::vector<std::string_view> columns;
    for (const KeyColumn& key : table.key) columns.push_back(key.name);
    columns.insert(columns.end(), table.texts.begin(), table.texts.end());
    if (!table.json_object.empty()) columns.push_back(table.json_object);
    const std::string sql = fmt::format("select {} from {} where org = {}", fmt::join(columns, ", "), table.table, org);
    reader.each(table.table, sql, [&](ColumnReader row) {
        std::vector<store::Cell> key;
        std::vector<std::string> wrong;
        for (const KeyColumn& column : table.key) {
            const std::string name(column.name);
            if (column.kind == KeyKind::id) {
                key.push_back({name, stored(row.id())});
            } else if (column.kind == KeyKind::number) {
                key.push_back({name, row.integer()});
            } else {
                const std::string_view text = row.text();
                if (!is_utf8(text)) wrong.push_back(fmt::format("{} is not UTF-8", name));
                key.push_back({name, as_utf8(text)});
            }
        }
        for (const std::string_view column : table.texts) {
            if (!is_utf8(row.text())) wrong.push_back(fmt::format("{} is not UTF-8", column));
        }
        if (!table.json_object.empty()) {
            const std::string_view text = row.text();
            if (!text.empty() && flaw_of_json_object(text)) {
                wrong.push_back(fmt::format("{} is not a JSON object", table.json_object));
            }
        }
        if (wrong.empty()) return;
        findings.note(table.promise,
                      fmt::format("{}: {}", to_text(row_of(std::string(table.table), org, std::move(key))),
                                  fmt::join(wrong, ", ")));
    });
}

}  // namespace

void check_text(std::int64_t org, SnapshotReader& reader, Findings& findings) {
    for (const TextColumns& table : text_tables()) check_table(org, table, reader, findings);
}

}  // namespace interlock::verify
