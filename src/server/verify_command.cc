#include "server/verify_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <memory>
#include <optional>

#include "base/shell.h"
#include "cli/text.h"
#include "engine/embedded.h"
#include "nodes/guarded_store.h"
#include "server/backend.h"
#include "store/seals.h"

namespace interlock::server {
namespace {

namespace json = boost::json;
using Seconds = std::chrono::duration<double>;

struct Checked {
    verify::Report report;
    Seconds took;
    std::vector<store::SealHead> heads;
    std::vector<std::string> missing;  // Of the heads that the store was to have: what it has instead.

    bool good() const { return report.violations() == 0 && missing.empty(); }
};

VerifyExit verify_only(const VerifyOptions& options, const cli::CliOutput& output);
VerifyExit verify_and_repair(const VerifyOptions& options, const cli::CliOutput& output);
VerifyExit give_up(const VerifyOptions& options, const cli::CliOutput& output, const std::string& why);
std::optional<store::SealHead> head_from_text(std::string_view text);

}  // namespace

VerifyExit verify_command(VerifyOptions options, const cli::CliOutput& output) {
    for (const std::string& head : options.heads) {
        if (head_from_text(head)) continue;
        return give_up(options, output,
                       fmt::format("--head '{}' is not N:HASH, as verify, backup and status print it", head));
    }
    if (!options.store.is_database()) {
        auto remembered = nodes::History::read(head_path(options.store.text));
        if (!remembered) return give_up(options, output, remembered.error());
        options.remembered = std::move(*remembered);
    }
    return options.repair ? verify_and_repair(options, output) : verify_only(options, output);
}

namespace {

// "12:9af3…", or "2/12:9af3…" of another org than the first.
std::string to_text(const store::SealHead& head) {
    const std::string text = fmt::format("{}:{}", head.number, head.hash);
    return head.org == engine::Embedded::default_org ? text : fmt::format("{}/{}", head.org.value, text);
}

std::optional<store::SealHead> head_from_text(std::string_view text) {
    store::SealHead head{engine::Embedded::default_org, {}, {}};
    const auto take_number = [&](auto& number, char until) {
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        const bool good = error == std::errc() && end != text.data() + text.size() && *end == until;
        if (good) text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
        return good;
    };
    if (text.find('/') != std::string_view::npos && !take_number(head.org.value, '/')) return std::nullopt;
    if (!take_number(head.number, ':') || head.number < 1 || text.size() != 64) return std::nullopt;
    if (text.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
    head.hash = text;
    return head;
}

// Empty, or what the store has in the place of a head.
Result<std::string, store::ReadError> find_missing(store::Snapshot& snapshot, const store::SealHead& head,
                                                   const std::vector<store::SealHead>& now) {
    const auto found = store::hash_of_seal(snapshot, head.org, head.number);
    if (!found) return fail(found.error());
    if (*found == head.hash) return std::string();
    const auto last = std::ranges::find(now, head.org, &store::SealHead::org);
    return fmt::format("the store lacks the head {}: {}; {}", to_text(head),
                       *found ? fmt::format("commit {} has the hash {}", head.number, **found)
                              : fmt::format("there is no commit {}", head.number),
                       last == now.end() ? std::string("there is no such org") : "its head is " + to_text(*last));
}

Result<void, store::ReadError> check_heads(store::Snapshot& snapshot, const VerifyOptions& options, Checked& checked) {
    auto heads = store::read_seal_heads(snapshot);
    if (!heads) return fail(heads.error());
    checked.heads = std::move(*heads);
    for (const std::string& text : options.heads) {
        auto missing = find_missing(snapshot, *head_from_text(text), checked.heads);
        if (!missing) return fail(missing.error());
        if (!missing->empty()) checked.missing.push_back(std::move(*missing));
    }
    if (!options.remembered.store) return {};
    const auto look = nodes::look_at(*options.remembered.store, options.remembered, snapshot);
    if (!look) return fail(look.error());
    if (!look->block_reason.empty()) {
        checked.missing.push_back(
            fmt::format("{}; this is known from the server that wrote the store; see interlock accept-history",
                        look->block_reason));
    }
    return {};
}

Result<Checked, store::ReadError> check(store::Snapshot& snapshot, const VerifyOptions& options,
                                        cli::CliOutput output) {
    const auto start = std::chrono::steady_clock::now();
    output.progress = output.progress && !options.json;
    auto report = check_promises(
        snapshot, {.examples_max = options.examples_max, .progress = {}, .seal_keys = options.seal_keys}, output);
    if (!report) return fail(report.error());
    Checked checked{.report = std::move(*report), .took = {}, .heads = {}, .missing = {}};
    if (auto compared = check_heads(snapshot, options, checked); !compared) return fail(compared.error());
    checked.took = std::chrono::steady_clock::now() - start;
    return checked;
}

VerifyExit give_up(const VerifyOptions& options, const cli::CliOutput& output, const std::string& why) {
    if (options.json) {
        fmt::print(output.out, "{}\n", json::serialize(json::object{{"error", why}}));
    } else {
        output.error(fmt::format("cannot verify '{}': {}", options.store.shown(), why), "");
    }
    return VerifyExit::could_not_verify;
}

// ---- as JSON ------------------------------------------------------------------------------------------------------

json::value to_json(const store::StoredValue& value) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
    if (const auto* text = std::get_if<std::string>(&value)) return json::value(*text);
    return json::value(verify::to_text(value));
}

json::array to_json(const std::vector<store::Repair>& repairs) {
    constexpr std::array names{"change", "insert", "remove"};
    json::array all;
    for (const store::Repair& repair : repairs) {
        json::array cells;
        for (const store::Repair::Change& cell : repair.cells) {
            json::object change{{"column", cell.column}};
            if (repair.kind != store::Repair::Kind::insert) change["from"] = to_json(cell.from);
            if (repair.kind != store::Repair::Kind::remove) change["to"] = to_json(cell.to);
            cells.push_back(std::move(change));
        }
        all.push_back(json::object{{"kind", names[static_cast<std::size_t>(repair.kind)]},
                                   {"row", verify::to_text(repair.row)},
                                   {"columns", std::move(cells)}});
    }
    return all;
}

std::string to_json(const Checked& checked, const std::vector<store::Repair>& repaired) {
    json::array promises;
    for (const verify::PromiseReport& promise : checked.report.promises) {
        json::array examples;
        for (const verify::Finding& finding : promise.examples) {
            examples.push_back(json::object{{"row", finding.row}, {"what", finding.what}});
        }
        promises.push_back(json::object{{"id", promise.id},
                                        {"title", promise.title},
                                        {"checked", promise.checked},
                                        {"checked_what", promise.checked_what},
                                        {"violations", promise.violations},
                                        {"examples", std::move(examples)},
                                        {"notes", json::value_from(promise.notes)}});
    }
    json::array heads;
    for (const store::SealHead& head : checked.heads) heads.push_back(json::value(to_text(head)));
    return json::serialize(json::object{{"ok", checked.good()},
                                        {"violations", checked.report.violations()},
                                        {"orgs", checked.report.orgs},
                                        {"cost_events", checked.report.cost_events},
                                        {"heads", std::move(heads)},
                                        {"missing_heads", json::value_from(checked.missing)},
                                        {"milliseconds", static_cast<std::int64_t>(checked.took.count() * 1000)},
                                        {"promises", std::move(promises)},
                                        {"repairable", checked.report.repairs.size()},
                                        {"repaired", to_json(repaired)}});
}

// ---- for people ---------------------------------------------------------------------------------------------------

std::string count_of(std::int64_t count, std::string_view what) {
    return fmt::format("{} {}{}", cli::count(count), what, count == 1 ? "" : "s");
}

void print_repairs(const std::vector<store::Repair>& repairs, const cli::CliOutput& output) {
    const std::string_view arrow = output.styled ? "→" : "->";
    for (const store::Repair& repair : repairs) {
        std::string line;
        for (const store::Repair::Change& cell : repair.cells) {
            if (!line.empty()) line += ", ";
            switch (repair.kind) {
                case store::Repair::Kind::change:
                    line += fmt::format("{} {} {} {}", cell.column, verify::to_text(cell.from), arrow,
                                        verify::to_text(cell.to));
                    break;
                case store::Repair::Kind::insert:
                    line += fmt::format("{} {}", cell.column, verify::to_text(cell.to));
                    break;
                case store::Repair::Kind::remove:
                    line += fmt::format("{} {}", cell.column, verify::to_text(cell.from));
                    break;
            }
        }
        constexpr std::array verbs{"changed", "added", "removed"};
        fmt::print(output.out, "{} {}\n    {}\n",
                   output.paint(cli::Style::yellow, verbs[static_cast<std::size_t>(repair.kind)]),
                   verify::to_text(repair.row), line);
    }
}

void print(const Checked& checked, const VerifyOptions& options, const cli::CliOutput& output) {
    for (const store::SealHead& head : checked.heads) {
        if (head.number > 0) fmt::print(output.out, "head  {}\n", to_text(head));
    }
    for (const std::string& missing : checked.missing) {
        fmt::print(output.out, "{} {}\n", output.paint(cli::Style::red, "FAILED"), missing);
    }
    fmt::print(output.out, "\n{}", promise_table(checked.report, checked.took, output));
    if (checked.report.repairs.empty() || options.repair) return;
    const bool database = options.store.is_database();
    fmt::print(
        output.out, "\n{} can be rebuilt from the ledger. Stop {}, then:\n\n    interlock verify {} {} --repair\n",
        count_of(static_cast<std::int64_t>(checked.report.repairs.size()), "row"),
        database ? "all nodes" : "the server", database ? "--store" : "--data-dir", shell_word(options.store.shown()));
}

VerifyExit exit_of(const Checked& checked) { return checked.good() ? VerifyExit::clean : VerifyExit::violations; }

// ---- the two ways -------------------------------------------------------------------------------------------------

VerifyExit verify_only(const VerifyOptions& options, const cli::CliOutput& output) {
    const auto snapshot = look_into(options.store);
    if (!snapshot) return give_up(options, output, snapshot.error().detail);
    const auto checked = check(**snapshot, options, output);
    if (!checked) return give_up(options, output, checked.error().detail);

    if (options.json) {
        fmt::print(output.out, "{}\n", to_json(*checked, {}));
    } else {
        print(*checked, options, output);
    }
    return exit_of(*checked);
}

VerifyExit verify_and_repair(const VerifyOptions& options, const cli::CliOutput& output) {
    // 1. Take the store, so that no other process writes between check and repair.
    const auto taken = open_offline(options.store);
    if (!taken) return give_up(options, output, taken.error().detail);
    const auto check_now = [&]() -> Result<Checked, store::ReadError> {
        const auto snapshot = (*taken)->store().snapshot();
        if (!snapshot) return fail(snapshot.error());
        return check(**snapshot, options, output);
    };

    // 2. Check, repair, and check again.
    auto checked = check_now();
    if (!checked) return give_up(options, output, checked.error().detail);
    const std::vector<store::Repair> repairs = checked->report.repairs;
    if (!repairs.empty()) {
        if (const auto repaired = (*taken)->repair(repairs); !repaired) {
            return give_up(options, output, fmt::format("the repair was not written: {}", repaired.error().detail));
        }
        checked = check_now();
        if (!checked) return give_up(options, output, checked.error().detail);
    }

    if (options.json) {
        fmt::print(output.out, "{}\n", to_json(*checked, repairs));
        return exit_of(*checked);
    }
    print_repairs(repairs, output);
    fmt::print(output.out, "{}\n\n",
               repairs.empty() ? std::string("nothing to repair")
                               : fmt::format("repaired {} in one transaction",
                                             count_of(static_cast<std::int64_t>(repairs.size()), "row")));
    print(*checked, options, output);
    return exit_of(*checked);
}

}  // namespace

Result<verify::Report, store::ReadError> check_promises(store::Snapshot& snapshot, verify::Options how,
                                                        const cli::CliOutput& output) {
    if (output.progress) {
        how.progress = [&](std::string_view what, std::int64_t rows) {
            fmt::print(output.err, "\r\x1b[Kreading {}: {}", what, cli::count(rows));
            std::fflush(output.err);
        };
    }
    auto report = verify::verify(snapshot, how);
    if (output.progress) fmt::print(output.err, "\r\x1b[K");
    return report;
}

Result<std::string, std::string> verify_as_json(store::Snapshot& snapshot, const VerifyOptions& options) {
    const auto checked = check(snapshot, options, cli::CliOutput{});
    if (!checked) return fail(checked.error().detail);
    return to_json(*checked, {});
}

std::string promise_table(const verify::Report& report, std::chrono::duration<double> took,
                          const cli::CliOutput& output) {
    std::string table;
    const auto line = [&table](std::string_view text) { table.append(text).push_back('\n'); };
    std::size_t title_width = 0;
    for (const verify::PromiseReport& promise : report.promises)
        title_width = std::max(title_width, promise.title.size());

    std::int64_t broken = 0;
    for (const verify::PromiseReport& promise : report.promises) {
        const bool holds = promise.violations == 0;
        broken += holds ? 0 : 1;
        const std::string mark =
            output.styled ? (holds ? output.paint(cli::Style::green, "✓") : output.paint(cli::Style::red, "✗"))
                          : fmt::format("{:<6}", holds ? "ok" : "FAILED");
        line(fmt::format("{}  {:<5} {:<{}}  {:>12} {}{}", mark, promise.id, promise.title, title_width,
                         cli::count(promise.checked), output.paint(cli::Style::dim, promise.checked_what),
                         holds ? "" : "  " + output.paint(cli::Style::red, count_of(promise.violations, "violation"))));
        for (const verify::Finding& finding : promise.examples) {
            line(fmt::format("         {}", output.paint(cli::Style::bold, finding.row)));
            line(fmt::format("             {}", finding.what));
        }
        const auto unnamed = promise.violations - static_cast<std::int64_t>(promise.examples.size());
        if (unnamed > 0) line(fmt::format("         and {} more", cli::count(unnamed)));
        for (const std::string& note : promise.notes)
            line(fmt::format("         {} {}", output.paint(cli::Style::yellow, "note:"), note));
    }
    const std::string read = fmt::format("{}, {}, {:.2f} s", count_of(report.orgs, "org"),
                                         count_of(report.cost_events, "cost event"), took.count());
    line("");
    line(broken == 0
             ? fmt::format("{} ({})", output.paint(cli::Style::green, "every guarantee holds"), read)
             : fmt::format("{} ({})",
                           output.paint(cli::Style::red, fmt::format("{} violated, {}", count_of(broken, "guarantee"),
                                                                     count_of(report.violations(), "violation"))),
                           read));
    return table;
}

}  // namespace interlock::server
