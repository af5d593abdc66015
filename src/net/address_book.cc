#include "net/address_book.h"

#include <boost/asio/ip/basic_resolver.hpp>
#include <boost/asio/redirect_error.hpp>

#include "net/asio_types.h"
#include "net/completion_queue.h"

namespace interlock::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;

using Resolver = asio::ip::basic_resolver<tcp, Executor>;

// One who waits for an answer; part of a coroutine's frame. Woken by cancelling its timer.
struct Asking : ListHook<Asking> {
    Asking(const Executor& executor, SteadyTime deadline) : timer(executor, deadline) {}
    Timer timer;
};

}  // namespace

struct AddressBook::Entry {
    explicit Entry(const Executor& executor) : resolver(executor) {}

    Resolver resolver;
    bool answered = false;
    error_code error;
    Addresses addresses;
    SteadyTime answered_at;
    List<Asking, Asking> askings;

    bool is_old() const { return answered && (error || steady_clock::now() - answered_at > believed_for); }
};

Task<Result<AddressBook::Addresses, std::string>> AddressBook::find(std::string host, SteadyTime deadline) {
    error_code error;
    const auto address = asio::ip::make_address(host, error);
    if (!error) co_return Addresses{address};
    if (host == "localhost") co_return Addresses{asio::ip::address_v4::loopback(), asio::ip::address_v6::loopback()};

    const auto found = entries_.find(host);
    const std::shared_ptr<Entry> entry = found == entries_.end() || found->second->is_old() ? ask(host) : found->second;
    if (!entry->answered) {
        Asking asking(executor_, deadline);
        entry->askings.push_back(asking);
        co_await asking.timer.async_wait(asio::redirect_error(use_task, error));
    }
    if (!entry->answered) co_return fail(host + ": its address was not found in time");
    if (entry->error) co_return fail(host + ": " + entry->error.message());
    if (entry->addresses.empty()) co_return fail(host + ": it has no address");
    co_return entry->addresses;
}

std::shared_ptr<AddressBook::Entry> AddressBook::ask(const std::string& host) {
    if (entries_.size() >= names_max) forget_old();
    const auto entry = std::make_shared<Entry>(executor_);
    entries_[host] = entry;
    entry->resolver.async_resolve(host, "", [entry](error_code error, const Resolver::results_type& results) {
        entry->answered = true;
        entry->error = error;
        entry->answered_at = steady_clock::now();
        for (const auto& result : results) entry->addresses.push_back(result.endpoint().address());
        for (Asking& asking : entry->askings) asking.timer.cancel();
    });
    return entry;
}

void AddressBook::forget_old() {
    std::erase_if(entries_, [](const auto& named) { return named.second->is_old(); });
}

}  // namespace interlock::net
