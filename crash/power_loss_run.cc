#include "crash/power_loss_run.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/codec.h"
#include "base/ensure.h"
#include "crash/examples.h"
#include "crash/workload.h"
#include "engine/engine.h"

namespace interlock::crash {

namespace {

// Judges the images of one history.
class Judge {
 public:
    explicit Judge(const History& history) : history_(history), vfs_(history.options.overwrite) {}

    // The power fails once `point` changes have been made.
    void move_to(std::size_t point) {
        while (returned_ < history_.commits.size() && history_.commits[returned_].returned_at <= point) ++returned_;
        under_way_ = returned_ < history_.commits.size() && history_.commits[returned_].began_at < point;
    }
    std::size_t returned() const { return returned_; }

    std::optional<Verdict> judge(const Image& image, bool deep);
    // The same after the power failed again, somewhere in the opening of the image.
    std::optional<Verdict> judge_second_loss(const Image& image, Random& random);

 private:
    std::optional<Verdict> judge_rows(store::Store& store, bool deep) const;
    std::optional<Verdict> judge_state(const StoredState& state) const;
    std::optional<Verdict> judge_answers(engine::Engine& engine, Instant now);
    const StoredState& last_returned() const {
        return returned_ == 0 ? history_.at_first : history_.commits[returned_ - 1].state;
    }
    Instant now() const { return history_.commits[std::min(returned_, history_.commits.size() - 1)].now; }

    const History& history_;
    PowerLossVfs vfs_;
    std::size_t returned_ = 0;  // Commits.
    bool under_way_ = false;    // The next one had begun.
};

std::optional<Verdict> Judge::judge(const Image& image, bool deep) {
    Disk disk(image);
    vfs_.mount(disk);
    const auto store = make_store(vfs_);
    if (const auto opened = store->open(); !opened) return Verdict{Wrong::not_opened, opened.error().detail};
    if (auto wrong = judge_rows(*store, deep)) return wrong;

    engine::Engine engine(*store, {});
    if (const auto opened = engine.open(now()); !opened) return Verdict{Wrong::not_opened, opened.error().detail};
    if (!deep) return std::nullopt;
    if (auto wrong = judge_answers(engine, now())) return wrong;
    if (auto wrong = verify_text(*store); !wrong.empty()) return Verdict{Wrong::verify_failed, "asked again: " + wrong};
    return std::nullopt;
}

std::optional<Verdict> Judge::judge_rows(store::Store& store, bool deep) const {
    auto snapshot = store.snapshot();
    if (!snapshot) return Verdict{Wrong::not_opened, snapshot.error().detail};
    const auto state = read_state(**snapshot);
    if (!state) return Verdict{Wrong::not_opened, state.error()};
    auto wrong_state = judge_state(*state);
    if (wrong_state && wrong_state->wrong != Wrong::state_unknown) return wrong_state;
    if (deep || wrong_state) {
        if (auto wrong = counters_that_disagree(**snapshot); !wrong.empty()) {
            return Verdict{Wrong::counters_disagree, wrong};
        }
    }
    if (wrong_state) return wrong_state;
    if (!deep) return std::nullopt;
    if (auto wrong = verify_text(**snapshot); !wrong.empty()) return Verdict{Wrong::verify_failed, wrong};
    return std::nullopt;
}

std::optional<Verdict> Judge::judge_second_loss(const Image& image, Random& random) {
    Disk disk(image);
    vfs_.mount(disk);
    {
        const auto store = make_store(vfs_);
        if (const auto opened = store->open(); !opened) return Verdict{Wrong::not_opened, opened.error().detail};
        // What closing does is not part of the opening.
        Medium medium(image, history_.options.overwrite);
        const std::vector<Change> log = disk.log();
        const std::size_t point = random.below(log.size() + 1);
        for (std::size_t i = 0; i < point; ++i) medium.follow(log[i]);
        const Image again = medium.after(static_cast<Loss>(random.below(loss_kinds)), random);
        store->close();
        return judge(again, false);
    }
}

std::optional<Verdict> Judge::judge_state(const StoredState& state) const {
    if (state == last_returned()) return std::nullopt;
    if (under_way_ && state == history_.commits[returned_].state) return std::nullopt;

    // It is wrong; how, is for people.
    for (std::size_t i = 0; i < returned_; ++i) {
        for (const Spoken& spoken : history_.commits[i].spoken) {
            if (spoken.done && !state.remembers(spoken.command.key.value)) {
                return Verdict{Wrong::acknowledged_lost,
                               fmt::format("{} of commit {}, with {} commits returned",
                                           to_text("key", spoken.command.key.value), i, returned_)};
            }
        }
    }
    if (under_way_) {
        const Commit& batch = history_.commits[returned_];
        std::size_t there = 0;
        std::size_t all = 0;
        for (const Spoken& spoken : batch.spoken) {
            if (!spoken.done || last_returned().remembers(spoken.command.key.value)) continue;
            ++all;
            if (state.remembers(spoken.command.key.value)) ++there;
        }
        if (there != 0 && there != all) {
            return Verdict{Wrong::batch_torn, fmt::format("{} of {} commands of commit {}", there, all, returned_)};
        }
    }
    return Verdict{Wrong::state_unknown, difference(state, last_returned())};
}

std::optional<Verdict> Judge::judge_answers(engine::Engine& engine, Instant now) {
    std::optional<Verdict> verdict;
    std::size_t asked = 0;
    std::size_t heard = 0;
    for (std::size_t i = 0; i < returned_; ++i) {
        for (const Spoken& spoken : history_.commits[i].spoken) {
            if (!spoken.done) continue;
            ++asked;
            engine.submit({.command = spoken.command, .on_answer = [&, i](const engine::SubmitResult& answer) {
                               ++heard;
                               if (answer && answer->repeated && encode(answer->reply) == spoken.reply) return;
                               verdict = Verdict{
                                   Wrong::answer_changed,
                                   fmt::format("{} of commit {} was {}", to_text("key", spoken.command.key.value), i,
                                               !answer            ? "not answered"
                                               : answer->repeated ? "answered otherwise"
                                                                  : "carried out again")};
                           }});
        }
    }
    for (std::size_t steps = 0; engine.has_work(now) && steps < 1'000; ++steps) engine.step(now);
    if (heard != asked) return Verdict{Wrong::answer_changed, fmt::format("{} of {} were answered", heard, asked)};
    if (verdict || !under_way_) return verdict;

    // The batch that was under way is there as a whole or not at all, seen by its commands.
    const Commit& batch = history_.commits[returned_];
    std::size_t repeated = 0;
    std::size_t fresh = 0;
    for (const Spoken& spoken : batch.spoken) {
        if (!spoken.done || last_returned().remembers(spoken.command.key.value)) continue;
        const bool twice_in_batch = std::ranges::count_if(batch.spoken, [&](const Spoken& other) {
                                        return other.command.key == spoken.command.key;
                                    }) > 1;
        if (twice_in_batch) continue;
        engine.submit({.command = spoken.command, .on_answer = [&](const engine::SubmitResult& answer) {
                           if (answer) ++(answer->repeated ? repeated : fresh);
                       }});
    }
    for (std::size_t steps = 0; engine.has_work(now) && steps < 1'000; ++steps) engine.step(now);
    if (repeated != 0 && fresh != 0) {
        return Verdict{Wrong::batch_torn, fmt::format("asked again, {} of commit {} were repeats and {} were new",
                                                      repeated, returned_, fresh)};
    }
    return std::nullopt;
}

// Everything that is done at one point.
struct Walk {
    const History& history;
    std::uint64_t deep_every;
    std::size_t first_point;
    std::int64_t only_point;
    std::atomic<std::uint64_t>* images_left;  // Null: no end but that of the history.

    Tally run() const {
        Tally tally;
        tally.histories = 1;
        Judge judge(history);
        Medium medium({}, history.options.overwrite);
        std::pair<std::uint64_t, std::size_t> dropped_at = {~0ull, 0};
        for (std::size_t point = 0; point <= history.log.size(); ++point) {
            if (point > 0) medium.follow(history.log[point - 1]);
            judge.move_to(point);
            if (point < first_point || (only_point >= 0 && point != static_cast<std::size_t>(only_point))) continue;
            ++tally.points;
            for (std::size_t i = 0; i < loss_kinds; ++i) {
                const auto loss = static_cast<Loss>(i);
                // Without a sync or an answer in between, dropping gives the image it gave before; and where nothing is
                // un-synced, all five are the same.
                const std::pair now_at = {medium.syncs(), judge.returned()};
                if (loss == Loss::dropped && now_at == dropped_at && only_point < 0) continue;
                if (loss == Loss::dropped) dropped_at = now_at;
                if (loss != Loss::dropped && !medium.has_unsynced()) continue;
                if (images_left != nullptr && !take_one()) return tally;
                look(tally, judge, medium, point, loss);
            }
        }
        return tally;
    }

    bool take_one() const {
        std::uint64_t left = images_left->load();
        while (left > 0 && !images_left->compare_exchange_weak(left, left - 1)) {
        }
        return left > 0;
    }

    void look(Tally& tally, Judge& judge, const Medium& medium, std::size_t point, Loss loss) const {
        // The dice are thrown anew for each image, so that one image can be made again without the others.
        Random random(history.options.seed * 0x9E3779B97F4A7C15ull + point * loss_kinds +
                      static_cast<std::size_t>(loss));
        const std::uint64_t number = tally.all_images();
        ++tally.images[static_cast<std::size_t>(loss)];
        const Image image = medium.after(loss, random);
        const bool deep = only_point >= 0 || number % deep_every == 0;
        if (deep) ++tally.deep;
        auto verdict = judge.judge(image, deep);
        // On a disk that may spoil what stands beside an unfinished write, SQLite itself bears one loss, not two: the
        // log goes on in the sector where the last commit ends, and the first loss may have taken the copy that guards
        // it.
        const bool bears_two = history.options.overwrite == Overwrite::powersafe;
        if (!verdict && bears_two && (only_point >= 0 || number % deep_every == deep_every / 2)) {
            ++tally.twice;
            verdict = judge.judge_second_loss(image, random);
            if (verdict) verdict->detail += " (after a second loss of power)";
        }
        if (!verdict) return;
        ++tally.wrong[static_cast<std::size_t>(verdict->wrong)];
        if (tally.examples.size() < examples_max) {
            tally.examples.push_back(fmt::format("{}: {} (image: {}; again: --replay {}:{})", to_text(verdict->wrong),
                                                 verdict->detail, to_text(loss), history.options.seed, point));
        }
    }
};

HistoryOptions options_of(std::uint64_t seed, const PowerLossOptions& options) {
    return {.seed = seed,
            .batches = options.batches,
            // Every fourth disk is one that SQLite is promised nothing about.
            .overwrite = seed % 4 == 0 ? Overwrite::fragile : Overwrite::powersafe,
            .sabotage = options.sabotage};
}

Tally unusable(const std::string& why, std::uint64_t seed) {
    Tally tally;
    tally.wrong[static_cast<std::size_t>(Wrong::verify_failed)] = 1;
    tally.examples.push_back(fmt::format("the history of seed {} failed before any crash: {}", seed, why));
    return tally;
}

}  // namespace

Tally run_power_losses(const PowerLossOptions& options) {
    std::atomic<std::uint64_t> images_left = options.images_max;
    std::atomic<std::uint64_t> next_seed = options.seed;
    std::atomic<unsigned> at_work = options.threads;
    std::mutex mutex;
    Tally total;

    const auto work = [&] {
        while (images_left > 0) {
            const std::uint64_t seed = next_seed++;
            const auto history = record_history(options_of(seed, options));
            const Tally tally = history ? Walk{*history, options.deep_every,
                                               options.after_setup ? history->set_up_at : 0, -1, &images_left}
                                              .run()
                                        : unusable(history.error(), seed);
            const std::lock_guard lock(mutex);
            total.add(tally);
            if (!history) break;
        }
        --at_work;
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < options.threads; ++i) threads.emplace_back(work);
    while (options.progress && at_work > 0) {
        options.progress(options.images_max - images_left);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    for (std::thread& thread : threads) thread.join();
    return total;
}

Tally replay_power_loss(const PowerLossOptions& options, std::size_t point) {
    const auto history = record_history(options_of(options.seed, options));
    if (!history) return unusable(history.error(), options.seed);
    return Walk{*history, options.deep_every, 0, static_cast<std::int64_t>(point), nullptr}.run();
}

std::uint64_t Tally::all_images() const { return std::accumulate(images.begin(), images.end(), std::uint64_t{0}); }
std::uint64_t Tally::violations() const { return std::accumulate(wrong.begin(), wrong.end(), std::uint64_t{0}); }

void Tally::add(const Tally& other) {
    for (std::size_t i = 0; i < loss_kinds; ++i) images[i] += other.images[i];
    for (std::size_t i = 0; i < wrong_kinds; ++i) wrong[i] += other.wrong[i];
    deep += other.deep;
    twice += other.twice;
    histories += other.histories;
    points += other.points;
    for (const std::string& example : other.examples) {
        if (examples.size() < examples_max) examples.push_back(example);
    }
}

std::string_view to_text(Wrong wrong) {
    switch (wrong) {
        case Wrong::not_opened:
            return "does not open";
        case Wrong::acknowledged_lost:
            return "an acknowledged command is lost";
        case Wrong::batch_torn:
            return "a batch is there in part";
        case Wrong::state_unknown:
            return "holds what the store never held";
        case Wrong::counters_disagree:
            return "counters disagree";
        case Wrong::verify_failed:
            return "verify failed";
        case Wrong::answer_changed:
            return "a repeat did not get its first answer";
    }
    ensure(false, "every wrong has a name");
}

}  // namespace interlock::crash
