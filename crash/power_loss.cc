#include "crash/power_loss.h"

#include <algorithm>
#include <cstring>

#include "base/ensure.h"

namespace interlock::crash {

namespace {

void put(std::string& bytes, std::size_t offset, std::string_view what) {
    if (bytes.size() < offset + what.size()) bytes.resize(offset + what.size());
    std::memcpy(bytes.data() + offset, what.data(), what.size());
}

void apply(std::string& bytes, const Change& change) {
    if (change.kind == Change::Kind::truncate) {
        bytes.resize(static_cast<std::size_t>(change.offset));
    } else {
        put(bytes, static_cast<std::size_t>(change.offset), change.bytes);
    }
}

}  // namespace

Medium::Medium(const Image& at_first, Overwrite overwrite)
    : sector_(overwrite == Overwrite::fragile ? 4096 : 512), overwrite_(overwrite) {
    for (const auto& [name, bytes] : at_first) {
        synced_names_.emplace(name, static_cast<FileNumber>(files_.size()));
        files_.push_back({.synced = bytes, .since = {}});
    }
}

void Medium::follow(const Change& change) {
    if (change.file >= files_.size()) files_.resize(change.file + 1);
    File& file = files_[change.file];
    switch (change.kind) {
        case Change::Kind::create:
        case Change::Kind::remove:
            names_since_.push_back(&change);
            break;
        case Change::Kind::write:
        case Change::Kind::truncate:
            file.since.push_back(&change);
            break;
        case Change::Kind::sync:
            for (const Change* pending : file.since) apply(file.synced, *pending);
            file.since.clear();
            ++syncs_;
            break;
        case Change::Kind::sync_lost:
            file.since.clear();
            break;
        case Change::Kind::sync_directory: {
            Random unused(0);
            synced_names_ = names_after(Loss::kept, unused);
            names_since_.clear();
            ++syncs_;
            break;
        }
    }
}

Image Medium::after(Loss loss, Random& random) const {
    Image image;
    for (const auto& [name, file] : names_after(loss, random)) {
        image.emplace(name, bytes_after(files_[file], loss, random));
    }
    return image;
}

bool Medium::has_unsynced() const {
    return !names_since_.empty() || std::ranges::any_of(files_, [](const File& file) { return !file.since.empty(); });
}

Medium::Names Medium::names_after(Loss loss, Random& random) const {
    Names names = synced_names_;
    if (loss == Loss::dropped) return names;
    const std::size_t first_lost = loss == Loss::torn ? random.below(names_since_.size() + 1) : names_since_.size();
    for (std::size_t i = 0; i < first_lost; ++i) {
        const Change& change = *names_since_[i];
        if ((loss == Loss::reordered || loss == Loss::garbage) && random.percent(50)) continue;
        if (change.kind == Change::Kind::create) {
            names[change.name] = change.file;
        } else {
            names.erase(change.name);
        }
    }
    return names;
}

std::string Medium::bytes_after(const File& file, Loss loss, Random& random) const {
    if (file.since.empty() || loss == Loss::dropped) return file.synced;
    switch (loss) {
        case Loss::torn:
            return torn(file, random);
        case Loss::reordered:
            return scattered(file, random, false);
        case Loss::garbage:
            return scattered(file, random, true);
        default:
            break;
    }
    std::string bytes = file.synced;
    for (const Change* change : file.since) apply(bytes, *change);
    return bytes;
}

std::string Medium::torn(const File& file, Random& random) const {
    // The write that was going on is the likeliest to be torn.
    const std::size_t last = file.since.size() - 1;
    const std::size_t cut = random.percent(50) ? last : random.below(file.since.size());
    std::string bytes = file.synced;
    for (std::size_t i = 0; i < cut; ++i) apply(bytes, *file.since[i]);

    const Change& change = *file.since[cut];
    if (change.kind != Change::Kind::write || change.bytes.empty()) return bytes;
    const auto begin = static_cast<std::size_t>(change.offset);
    std::size_t length = random.below(change.bytes.size() + 1);
    if (random.percent(50)) {
        const std::size_t end = (begin + length) / sector_ * sector_;
        length = end > begin ? end - begin : 0;
    }
    put(bytes, begin, std::string_view(change.bytes).substr(0, length));
    if (overwrite_ == Overwrite::fragile && (begin + length) % sector_ != 0) {
        // A sector that is written to but not to its end is lost with all that was in it.
        const std::size_t sector = (begin + length) / sector_ * sector_;
        if (sector < bytes.size()) random.fill(bytes.data() + sector, std::min(sector_, bytes.size() - sector));
    }
    return bytes;
}

std::string Medium::scattered(const File& file, Random& random, bool with_garbage) const {
    constexpr unsigned chances[] = {5, 30, 50, 70, 95};
    const unsigned keep = chances[random.below(std::size(chances))];
    std::string bytes = file.synced;
    std::size_t whole_size = bytes.size();
    for (const Change* change : file.since) {
        const auto begin = static_cast<std::size_t>(change->offset);
        if (change->kind == Change::Kind::truncate) {
            if (random.percent(keep)) bytes.resize(begin);
            whole_size = begin;
            continue;
        }
        const std::size_t end = begin + change->bytes.size();
        whole_size = std::max(whole_size, end);
        for (std::size_t at = begin; at < end;) {
            const std::size_t next = std::min(end, (at / sector_ + 1) * sector_);
            if (with_garbage && random.percent(20)) {
                std::size_t from = at;
                std::size_t to = next;
                if (overwrite_ == Overwrite::fragile) {
                    from = at / sector_ * sector_;
                    to = from + sector_;
                }
                if (bytes.size() < to) bytes.resize(to);
                random.fill(bytes.data() + from, to - from);
            } else if (random.percent(keep)) {
                put(bytes, at, std::string_view(change->bytes).substr(at - begin, next - at));
            }
            at = next;
        }
    }
    // The size is metadata and goes its own ways.
    if (whole_size > file.synced.size() && random.percent(25)) bytes.resize(std::max(bytes.size(), whole_size));
    if (bytes.size() > file.synced.size() && random.percent(25)) {
        bytes.resize(file.synced.size() + random.below(bytes.size() - file.synced.size() + 1));
    }
    return bytes;
}

std::string_view to_text(Loss loss) {
    switch (loss) {
        case Loss::dropped:
            return "dropped";
        case Loss::kept:
            return "kept";
        case Loss::torn:
            return "torn";
        case Loss::reordered:
            return "reordered";
        case Loss::garbage:
            return "garbage";
    }
    ensure(false, "every kind of loss has a name");
}

}  // namespace interlock::crash
