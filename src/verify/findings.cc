#include "verify/findings.h"

#include <fmt/format.h>

#include <array>

namespace interlock::verify {
namespace {

struct Title {
    std::string_view id;
    std::string_view title;
    std::string_view checked_what;
};
// In the order of Promise.
constexpr std::array titles{
    Title{"P1", "exact ledger", "counters"},
    Title{"P2", "hard ceiling", "windows and holds"},
    Title{"P3", "nothing lost, nothing twice", "cost events"},
    Title{"P4", "one order", "messages and totals"},
    Title{"P5", "one worker per place", "claims"},
    Title{"P6", "caps", "caps in use"},
    Title{"P7", "fenced", "fences"},
    Title{"P8", "exactly one tick", "ticks"},
    Title{"P9", "nobody is forgotten", "runs and holds"},
    Title{"feed", "unbroken feed", "pages"},
    Title{"rows", "rows as committed", "rows and seals"},
};

std::string hex_of(std::string_view bytes) {
    std::string hex;
    for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
    return hex;
}

std::string quoted(std::string_view text) {
    std::string quoted = "'";
    for (const char c : text) {
        if (c == '\'') quoted += '\'';
        quoted += c;
    }
    return quoted + "'";
}

}  // namespace

Findings::Findings(std::size_t examples_max) : examples_max_(examples_max) {
    for (std::size_t i = 0; i < titles.size(); ++i) {
        PromiseReport& promise = report_.promises.emplace_back();
        promise.promise = static_cast<Promise>(i);
        promise.id = titles[i].id;
        promise.title = titles[i].title;
        promise.checked_what = titles[i].checked_what;
    }
}

void Findings::violated(Promise promise, const store::RowName& row, std::string what) {
    PromiseReport& report = of(promise);
    ++report.violations;
    if (report.examples.size() < examples_max_) report.examples.push_back({promise, to_text(row), std::move(what)});
}

void Findings::note(Promise promise, std::string text) {
    PromiseReport& report = of(promise);
    if (report.notes.size() < examples_max_) report.notes.push_back(std::move(text));
}

void Findings::counters(Promise promise, const store::RowName& row, std::initializer_list<Counter> counters,
                        std::string_view counted) {
    store::Repair repair{store::Repair::Kind::change, row, {}};
    constexpr __int128 counter_max = 2'000'000'000'000'000'000;  // No counter says more.
    for (const Counter& counter : counters) {
        checked(promise);
        if (counter.stored == counter.derived) continue;
        if (counter.stored == counter_max && counter.derived > counter_max) continue;
        violated(promise, row,
                 fmt::format("{} is {}, {} say {}", counter.column, counter.stored, counted, counter.derived));
        // A sum that does not fit into the column cannot be put there.
        if (counter.derived < INT64_MIN || counter.derived > INT64_MAX) continue;
        repair.cells.push_back(
            {std::string(counter.column), counter.stored, static_cast<std::int64_t>(counter.derived)});
    }
    if (!repair.cells.empty()) report_.repairs.push_back(std::move(repair));
}

std::int64_t Report::violations() const {
    std::int64_t sum = 0;
    for (const PromiseReport& promise : promises) sum += promise.violations;
    return sum;
}

store::RowName row_of(std::string table, std::int64_t org, std::vector<store::Cell> key) {
    key.insert(key.begin(), store::Cell{"org", org});
    return {std::move(table), std::move(key)};
}

store::StoredValue stored(Id id) {
    std::string bytes(16, '\0');
    for (std::size_t i = 0; i < 8; ++i) {
        bytes[i] = static_cast<char>(id.high >> (56 - 8 * i));
        bytes[i + 8] = static_cast<char>(id.low >> (56 - 8 * i));
    }
    return store::Blob{std::move(bytes)};
}

std::string to_text(const store::RowName& row) {
    std::string text = row.table + ":";
    std::string_view separator = " ";
    for (const store::Cell& cell : row.key) {
        text += fmt::format("{}{}={}", separator, cell.column, to_text(cell.value));
        separator = " and ";
    }
    return text;
}

std::string to_text(const store::StoredValue& value) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
    if (const auto* text = std::get_if<std::string>(&value)) return quoted(*text);
    return "x'" + hex_of(std::get<store::Blob>(value).bytes) + "'";
}

}  // namespace interlock::verify
