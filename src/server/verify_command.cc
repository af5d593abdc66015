#include "server/verify_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <memory>
#include <optional>

namespace interlock::server {
namespace {

namespace json = boost::json;
using Seconds = std::chrono::duration<double>;

struct Checked {
    verify::Report report;
    Seconds took;
};

VerifyExit verify_only(const VerifyOptions& options, const Terminal& terminal);
VerifyExit verify_and_repair(const VerifyOptions& options, const Terminal& terminal);

}  // namespace

VerifyExit verify_command(const VerifyOptions& options, const Terminal& terminal) {
    return options.repair ? verify_and_repair(options, terminal) : verify_only(options, terminal);
}

namespace {

Result<Checked, store::ReadError> check(store::Snapshot& snapshot, const VerifyOptions& options, Terminal terminal) {
    const auto start = std::chrono::steady_clock::now();
    terminal.progress = terminal.progress && !options.json;
    auto report = check_promises(snapshot, {.examples_max = options.examples_max, .progress = {}}, terminal);
    if (!report) return fail(report.error());
    return Checked{std::move(*report), std::chrono::steady_clock::now() - start};
}

VerifyExit give_up(const VerifyOptions& options, const Terminal& terminal, const std::string& why) {
    if (options.json) {
        fmt::print(terminal.out, "{}\n", json::serialize(json::object{{"error", why}}));
    } else {
        fmt::print(terminal.err, "{} cannot verify '{}': {}\n", terminal.red("error:"), options.store.shown(), why);
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
    return json::serialize(json::object{{"ok", checked.report.violations() == 0},
                                        {"violations", checked.report.violations()},
                                        {"orgs", checked.report.orgs},
                                        {"cost_events", checked.report.cost_events},
                                        {"milliseconds", static_cast<std::int64_t>(checked.took.count() * 1000)},
                                        {"promises", std::move(promises)},
                                        {"repairable", checked.report.repairs.size()},
                                        {"repaired", to_json(repaired)}});
}

// ---- for people ---------------------------------------------------------------------------------------------------

std::string count_of(std::int64_t count, std::string_view what) {
    return fmt::format("{} {}{}", with_separators(count), what, count == 1 ? "" : "s");
}

void print_repairs(const std::vector<store::Repair>& repairs, const Terminal& terminal) {
    const std::string_view arrow = terminal.styled ? "→" : "->";
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
        fmt::print(terminal.out, "{} {}\n    {}\n", terminal.yellow(verbs[static_cast<std::size_t>(repair.kind)]),
                   verify::to_text(repair.row), line);
    }
}

void print(const Checked& checked, const VerifyOptions& options, const Terminal& terminal) {
    fmt::print(terminal.out, "{}", promise_table(checked.report, checked.took, terminal));
    if (checked.report.repairs.empty() || options.repair) return;
    const bool database = options.store.is_database();
    fmt::print(terminal.out,
               "\n{} can be rebuilt from the ledger. Stop {}, then:\n\n    interlock verify {} {} --repair\n",
               count_of(static_cast<std::int64_t>(checked.report.repairs.size()), "row"),
               database ? "all nodes" : "the server", database ? "--store" : "--data-dir", options.store.shown());
}

VerifyExit exit_of(const verify::Report& report) {
    return report.violations() == 0 ? VerifyExit::clean : VerifyExit::violations;
}

// ---- the two ways -------------------------------------------------------------------------------------------------

VerifyExit verify_only(const VerifyOptions& options, const Terminal& terminal) {
    const auto snapshot = look_into(options.store);
    if (!snapshot) return give_up(options, terminal, snapshot.error().detail);
    const auto checked = check(**snapshot, options, terminal);
    if (!checked) return give_up(options, terminal, checked.error().detail);

    if (options.json) {
        fmt::print(terminal.out, "{}\n", to_json(*checked, {}));
    } else {
        print(*checked, options, terminal);
    }
    return exit_of(checked->report);
}

VerifyExit verify_and_repair(const VerifyOptions& options, const Terminal& terminal) {
    // 1. Take the store. From here on nobody else writes, so what is found is what is repaired.
    const auto taken = open_offline(options.store);
    if (!taken) return give_up(options, terminal, taken.error().detail);
    const auto check_now = [&]() -> Result<Checked, store::ReadError> {
        const auto snapshot = (*taken)->store().snapshot();
        if (!snapshot) return fail(snapshot.error());
        return check(**snapshot, options, terminal);
    };

    // 2. Find, write, and look again: the second look is what counts.
    auto checked = check_now();
    if (!checked) return give_up(options, terminal, checked.error().detail);
    const std::vector<store::Repair> repairs = checked->report.repairs;
    if (!repairs.empty()) {
        if (const auto repaired = (*taken)->repair(repairs); !repaired) {
            return give_up(options, terminal, fmt::format("the repair was not written: {}", repaired.error().detail));
        }
        checked = check_now();
        if (!checked) return give_up(options, terminal, checked.error().detail);
    }

    if (options.json) {
        fmt::print(terminal.out, "{}\n", to_json(*checked, repairs));
        return exit_of(checked->report);
    }
    print_repairs(repairs, terminal);
    fmt::print(terminal.out, "{}\n\n",
               repairs.empty() ? std::string("nothing to repair")
                               : fmt::format("repaired {} in one transaction",
                                             count_of(static_cast<std::int64_t>(repairs.size()), "row")));
    print(*checked, options, terminal);
    return exit_of(checked->report);
}

}  // namespace

Result<verify::Report, store::ReadError> check_promises(store::Snapshot& snapshot, verify::Options how,
                                                        const Terminal& terminal) {
    if (terminal.progress) {
        how.progress = [&](std::string_view what, std::int64_t rows) {
            fmt::print(terminal.err, "\r\x1b[Kreading {}: {}", what, with_separators(rows));
            std::fflush(terminal.err);
        };
    }
    auto report = verify::verify(snapshot, how);
    if (terminal.progress) fmt::print(terminal.err, "\r\x1b[K");
    return report;
}

Result<std::string, std::string> verify_as_json(store::Snapshot& snapshot) {
    const auto checked = check(snapshot, VerifyOptions{.store = {}, .json = true}, Terminal{});
    if (!checked) return fail(checked.error().detail);
    return to_json(*checked, {});
}

std::string promise_table(const verify::Report& report, std::chrono::duration<double> took, const Terminal& terminal) {
    std::string table;
    const auto line = [&table](std::string_view text) { table.append(text).push_back('\n'); };
    std::size_t title_width = 0;
    for (const verify::PromiseReport& promise : report.promises)
        title_width = std::max(title_width, promise.title.size());

    std::int64_t broken = 0;
    for (const verify::PromiseReport& promise : report.promises) {
        const bool holds = promise.violations == 0;
        broken += holds ? 0 : 1;
        const std::string mark = terminal.styled ? (holds ? terminal.green("✓") : terminal.red("✗"))
                                                 : fmt::format("{:<6}", holds ? "ok" : "FAILED");
        line(fmt::format("{}  {:<5} {:<{}}  {:>12} {}{}", mark, promise.id, promise.title, title_width,
                         with_separators(promise.checked), terminal.dim(promise.checked_what),
                         holds ? "" : "  " + terminal.red(count_of(promise.violations, "violation"))));
        for (const verify::Finding& finding : promise.examples) {
            line(fmt::format("         {}", terminal.bold(finding.row)));
            line(fmt::format("             {}", finding.what));
        }
        const auto unnamed = promise.violations - static_cast<std::int64_t>(promise.examples.size());
        if (unnamed > 0) line(fmt::format("         and {} more", with_separators(unnamed)));
        for (const std::string& note : promise.notes)
            line(fmt::format("         {} {}", terminal.yellow("note:"), note));
    }
    const std::string read = fmt::format("{}, {}, {:.2f} s", count_of(report.orgs, "org"),
                                         count_of(report.cost_events, "cost event"), took.count());
    line("");
    line(broken == 0 ? fmt::format("{} ({})", terminal.green("every promise holds"), read)
                     : fmt::format("{} ({})",
                                   terminal.red(fmt::format("{} broken, {}", count_of(broken, "promise"),
                                                            count_of(report.violations(), "violation"))),
                                   read));
    return table;
}

}  // namespace interlock::server
