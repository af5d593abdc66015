#include "demo/report.h"

#include "cli/text.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

namespace interlock::demo {
namespace {

using Values = std::vector<store::Value>;

std::int64_t integer(const store::Value& value) {
    const auto* number = std::get_if<std::int64_t>(&value);
    return number != nullptr ? *number : 0;  // A sum over nothing is null.
}

std::string exact_dollars(std::int64_t nanos) { return "$" + to_text(Money::nanos(nanos)); }

// A sentence that is only there when something is wrong.
void complain(Check& check, std::string what) {
    check.holds = false;
    check.sentences.push_back(std::move(what));
}

Result<Check, store::ReadError> check_money(store::Snapshot& snapshot, const DemoBooks& books) {
    Check check{.about = "budget", .holds = true, .sentences = {}};
    std::int64_t limit = 0, settled = 0, held = 0, sum = 0, events = 0, most = 0;
    auto read = snapshot.query(
        fmt::format("select limit_units, settled, held from budget_windows where budget = '{}'", budget_name),
        [&](const Values& row) {
            limit = integer(row[0]);
            settled = integer(row[1]);
            held = integer(row[2]);
        });
    if (!read) return fail(read.error());
    read = snapshot.query("select cost from cost_events order by seq", [&](const Values& row) {
        sum += integer(row[0]);
        events += 1;
        most = std::max(most, sum);
    });
    if (!read) return fail(read.error());

    check.sentences.push_back(fmt::format("{} limit, {} spent in {} calls, {}.", exact_dollars(limit),
                                          exact_dollars(sum), cli::count(events),
                                          most <= limit ? "never above" : "ABOVE THE LIMIT"));
    check.holds = most <= limit;
    if (sum == books.spent && events == books.calls_paid) {
        check.sentences.push_back("The agents' own books come to the same, to the nano-dollar.");
    } else {
        complain(check, fmt::format("The agents were told of {} in {} calls.", exact_dollars(books.spent),
                                    cli::count(books.calls_paid)));
    }
    if (settled != sum) complain(check, fmt::format("The budget says {}.", exact_dollars(settled)));
    if (held != 0) complain(check, fmt::format("{} is still held for nobody.", exact_dollars(held)));
    check.sentences.push_back(fmt::format("{} calls and {} runs were refused for want of money.",
                                          cli::count(books.calls_refused), cli::count(books.runs_refused)));
    return check;
}

Result<Check, store::ReadError> check_session(store::Snapshot& snapshot, const DemoBooks& books) {
    Check check{.about = "session", .holds = true, .sentences = {}};
    std::int64_t count = 0;
    std::string wrong;
    const auto read = snapshot.query("select seq, content from messages order by seq", [&](const Values& row) {
        const std::int64_t seq = integer(row[0]);
        const auto& text = std::get<std::string>(row[1]);
        const auto at = static_cast<std::size_t>(count);
        if (wrong.empty() && seq != count) wrong = fmt::format("Message {} comes where {} should.", seq, count);
        if (wrong.empty() && (at >= books.messages.size() || books.messages[at].text() != text)) {
            wrong = fmt::format("Message {} is '{}', which nobody was told.", seq, text);
        }
        count += 1;
    });
    if (!read) return fail(read.error());
    if (wrong.empty() && count != books.messages_told) {
        wrong = fmt::format("{} messages were acknowledged.", cli::count(books.messages_told));
    }
    if (wrong.empty()) {
        check.sentences.push_back(
            fmt::format("messages 0 to {} without a gap, none twice, each where its agent was told.",
                        cli::count(std::max<std::int64_t>(0, count - 1))));
    } else {
        check.sentences.push_back(fmt::format("{} messages are there.", cli::count(count)));
        complain(check, wrong);
    }
    return check;
}

Result<Check, store::ReadError> check_places(store::Snapshot& snapshot, const DemoBooks& books) {
    Check check{.about = "directories", .holds = true, .sentences = {}};
    std::int64_t admitted = 0, unfinished = 0, claims = 0;
    auto read = snapshot.query(
        "select count(*) filter (where admitted_at > 0),"
        " count(*) filter (where state in ('queued', 'starting', 'running', 'paused')) from runs",
        [&](const Values& row) {
            admitted = integer(row[0]);
            unfinished = integer(row[1]);
        });
    if (!read) return fail(read.error());
    read = snapshot.query("select count(*) from claims", [&](const Values& row) { claims = integer(row[0]); });
    if (!read) return fail(read.error());

    std::string other_names;
    std::int64_t turned_away = 0;
    for (const PlaceBook& place : books.places) {
        turned_away += place.turned_away;
        if (!place.other_name.empty()) {
            other_names += fmt::format(", '{}' also by the name of '{}'", place.name, place.other_name);
        }
    }
    check.sentences.push_back(fmt::format("{} runs in {} directories{}; {} turned away.", cli::count(admitted),
                                          books.places.size(), other_names, cli::count(turned_away)));
    if (books.collisions == 0) {
        check.sentences.push_back("Never two in one: each locked a file there (flock), and found it free every time.");
    } else {
        complain(check, fmt::format("{} found the directory in use by another.", cli::count(books.collisions)));
    }
    if (admitted != books.runs()) {
        complain(check, fmt::format("The agents were told of {} runs.", cli::count(books.runs())));
    }
    if (unfinished != 0 || claims != 0) {
        complain(check, fmt::format("{} runs did not end, {} places are not free.", unfinished, claims));
    }
    return check;
}

Check check_kill(const KillTally& kill) {
    Check check{.about = "kill -9", .holds = kill.found == kill.asked_again, .sentences = {}};
    check.sentences.push_back(
        fmt::format("{} commands had been acknowledged; {}asked again, {} of {} were there with their first answer.",
                    cli::count(kill.acknowledged), kill.remembered < kill.acknowledged ? "the latest of them " : "",
                    cli::count(kill.found), cli::count(kill.asked_again)));
    check.sentences.push_back(fmt::format(
        "{} were in flight: {} had been carried out and were answered from the first time, {} were decided now.",
        cli::count(kill.in_flight), cli::count(kill.had_been_done), cli::count(kill.done_later)));
    if (kill.left_behind.empty()) {
        check.sentences.push_back(
            "The files it left behind were checked before a process opened them: every guarantee held.");
    } else {
        complain(check, "In the files it left behind: " + kill.left_behind + ".");
    }
    if (kill.remembered == 0) complain(check, "Nothing was asked again.");
    if (kill.asked_again != kill.remembered) complain(check, "Some were not asked again.");
    if (kill.had_been_done + kill.done_later != kill.in_flight) complain(check, "Some were never answered.");
    for (const std::string& lost : kill.lost) complain(check, lost);
    return check;
}

// The words of all sentences, in lines that end before `columns`; 0: one line.
std::vector<std::string> wrapped(const std::vector<std::string>& sentences, std::size_t columns) {
    std::vector<std::string> lines(1);
    for (const std::string& sentence : sentences) {
        std::istringstream words(sentence);
        for (std::string word; words >> word;) {
            if (columns > 0 && !lines.back().empty() && lines.back().size() + 1 + word.size() > columns)
                lines.emplace_back();
            if (!lines.back().empty()) lines.back() += ' ';
            lines.back() += word;
        }
    }
    return lines;
}

}  // namespace

Result<std::vector<Check>, store::ReadError> outside_checks(store::Snapshot& snapshot, const DemoBooks& books,
                                                            const std::optional<KillTally>& kill) {
    std::vector<Check> checks;
    for (const auto look : {check_money, check_session, check_places}) {
        auto check = look(snapshot, books);
        if (!check) return fail(check.error());
        checks.push_back(std::move(*check));
    }
    if (kill) checks.push_back(check_kill(*kill));
    if (!books.odd.empty()) checks.push_back({.about = "answers", .holds = false, .sentences = books.odd});
    return checks;
}

std::string to_text(const std::vector<Check>& checks, const cli::CliOutput& terminal, std::size_t columns) {
    constexpr std::size_t about_width = 11;
    std::string text;
    for (const Check& check : checks) {
        const std::string mark = terminal.styled ? (check.holds ? terminal.paint(cli::Style::green, "✓")
                                                                : terminal.paint(cli::Style::red, "✗"))
                                                 : fmt::format("{:<6}", check.holds ? "ok" : "FAILED");
        const std::size_t indent = (terminal.styled ? 1 : 6) + 2 + about_width + 2;
        const std::size_t room = columns > indent + 20 ? columns - indent : 0;
        bool first = true;
        for (const std::string& line : wrapped(check.sentences, room)) {
            text += first ? fmt::format(
                                "{}  {}  {}\n", mark,
                                terminal.paint(cli::Style::bold, fmt::format("{:<{}}", check.about, about_width)), line)
                          : fmt::format("{:{}}{}\n", "", indent, line);
            first = false;
        }
    }
    return text;
}

}  // namespace interlock::demo
