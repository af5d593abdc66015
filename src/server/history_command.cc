#include "server/history_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "nodes/guarded_store.h"
#include "nodes/history.h"
#include "server/backend.h"
#include "server/node.h"
#include "server/offline_store.h"
#include "store/postgres_cluster.h"
#include "store/transfer.h"

namespace interlock::server {
namespace {

using cli::ExitCode;
using nodes::History;

// What the store shows in the place of what is remembered. The error is a sentence.
Result<std::string, std::string> compared_heads(const History::Memory& memory, const StoreAddress& address) {
    const auto snapshot = look_into(address);
    if (!snapshot) return fail(snapshot.error().detail);
    const auto heads = store::read_heads(**snapshot);
    if (!heads) return fail(heads.error().detail);

    std::string text;
    for (const store::FeedHead& head : *heads) {
        text += fmt::format("  org {:<5} ends at event {}, {:.12}…\n", head.org.value, head.last_seq.value, head.hash);
        const auto known = memory.pages.find(head.org);
        if (known == memory.pages.end()) continue;
        const auto there = nodes::hash_of_page(**snapshot, head.org, known->second.last_seq);
        if (!there) return fail(there.error().detail);
        text += fmt::format("            event {}: {}\n", known->second.last_seq.value,
                            !*there                         ? std::string("not the end of a page of the feed")
                            : **there == known->second.hash ? std::string("as remembered")
                                                            : fmt::format("{:.12}…, which differs", **there));
    }
    for (const auto& [org, page] : memory.pages) {
        const bool there = std::ranges::find(*heads, org, &store::FeedHead::org) != heads->end();
        if (!there) text += fmt::format("  org {:<5} is missing\n", org.value);
    }
    return text;
}

Result<std::string, std::string> compared(const History::Memory& memory, const StoreAddress& address) {
    if (!address.is_database()) {
        const auto heads = compared_heads(memory, address);
        // One that is missing or damaged is one more reason to come here.
        return fmt::format("\nThe store in {} now\n{}", address.text, heads ? *heads : "  " + heads.error() + "\n");
    }
    store::PostgresCluster cluster(store::PostgresOptions{.uri = address.text});
    const auto identity = cluster.identity();
    if (!identity) return fail(identity.error().detail);
    const auto heads = compared_heads(memory, address);
    if (!heads) return heads;
    const auto block_reason = cluster.block_reason();
    if (!block_reason) return fail(block_reason.error().detail);
    return fmt::format("\nThe database {} now\n  store     {}, timeline {}\n{}{}", address.shown(), identity->system,
                       identity->timeline, *heads,
                       block_reason->empty() ? "" : fmt::format("  blocked by a node: {}\n", *block_reason));
}

std::string to_text(const History::Memory& memory, const std::string& data_dir, bool embedded) {
    std::string text = fmt::format("Last events known to the {} in {}\n", embedded ? "server" : "node", data_dir);
    if (memory.store && !embedded)
        text += fmt::format("  store     {}, timeline {}\n", memory.store->system, memory.store->timeline);
    for (const auto& [org, page] : memory.pages) {
        text += fmt::format("  org {:<5} event {}, {:.12}…\n", org.value, page.last_seq.value, page.hash);
    }
    return text;
}

bool says_yes(const cli::CliOutput& output) {
    fmt::print(output.err, "\nRemove this record and use the store as it is? [y/N] ");
    std::fflush(output.err);
    char answer[16] = {};
    return std::fgets(answer, sizeof answer, stdin) != nullptr && (answer[0] == 'y' || answer[0] == 'Y');
}

}  // namespace

ExitCode accept_history_command(const AcceptHistoryOptions& options, const cli::CliOutput& output) {
    const auto problem = [&](ExitCode exit, const std::string& what) {
        output.error(what, "");
        return exit;
    };
    // A directory may have been served from either store.
    const bool embedded = options.store.empty() && ::access(head_path(options.data_dir).c_str(), F_OK) == 0;
    const std::string path = embedded ? head_path(options.data_dir) : history_path(options.data_dir);
    if (::access(path.c_str(), F_OK) != 0) {
        return problem(
            ExitCode::not_found,
            fmt::format("there is no record {} to remove; set --data-dir to the directory of a server or node", path));
    }

    // 1. Show. A memory that cannot be read is one more reason to come here.
    const auto history = History::open(path);
    const History::Memory memory = history ? (*history)->memory() : History::Memory();
    fmt::print(output.out, "{}", history ? to_text(memory, options.data_dir, embedded) : history.error() + "\n");
    if (embedded || !options.store.empty()) {
        const auto now = compared(memory, {embedded ? options.data_dir : options.store});
        if (!now) return problem(ExitCode::not_reachable, now.error());
        fmt::print(output.out, "{}", *now);
    }
    std::fflush(output.out);

    // 2. Ask.
    if (!options.yes && isatty(STDIN_FILENO) != 1) {
        return problem(ExitCode::refused, "nothing changed; pass --yes to remove the record");
    }
    if (!options.yes && !says_yes(output)) {
        fmt::print(output.err, "nothing changed\n");
        return ExitCode::refused;
    }

    // 3. Forget. What a node has put into the database it puts there again, unless it has been told to forget as well
    // or will not come back.
    if (::unlink(path.c_str()) != 0) {
        return problem(ExitCode::refused, fmt::format("cannot remove {}: {}", path, std::strerror(errno)));
    }
    if (!options.store.empty()) {
        store::PostgresCluster cluster(store::PostgresOptions{.uri = options.store});
        if (auto done = cluster.set_block_reason(""); !done)
            return problem(ExitCode::not_reachable, done.error().detail);
    }
    fmt::print(output.err, "removed; the {} as it is\n", embedded ? "server uses its store" : "node uses the database");
    return ExitCode::ok;
}

}  // namespace interlock::server
