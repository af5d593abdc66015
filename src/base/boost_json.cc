// Boost.JSON's own code, compiled here once for everybody who includes <boost/json.hpp>.
#include <boost/json/src.hpp>
