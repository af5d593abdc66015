// P3 for settings: a version never goes back, and a document changes only with it.
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "sim/checker.h"

namespace interlock::sim {
namespace {

using namespace core;

class SettingsChecker : public Checker {
 public:
    void check(World& world, const Rows& rows) override {
        for (const auto& [key, setting] : rows.rows<Setting>()) {
            const auto wrong = [&, name = setting.name](const std::string& what) {
                world.violated(Promise::nothing_twice, fmt::format("setting {} {}", name, what));
            };
            auto [seen, is_new] = seen_.try_emplace({key.first, setting.kind, setting.name}, setting);
            const Setting& before = seen->second;
            if (setting.version < before.version) wrong("has an older version than before");
            if (setting.version == before.version && setting.document != before.document) {
                wrong("has another document in the same version");
            }
            if (setting.dropped && !setting.document.empty()) wrong("is dropped and still says something");
            seen->second = setting;
        }
    }

 private:
    std::map<std::tuple<OrgId, std::string, std::string>, Setting> seen_;
};

}  // namespace

std::unique_ptr<Checker> make_settings_checker() { return std::make_unique<SettingsChecker>(); }

}  // namespace interlock::sim
