// SPDX-License-Identifier: MIT
#include "tools/admin/commands.h"

#include "tools/admin/legacy.h"
#include "tools/admin/perf.h"
#include "tools/admin/processes.h"
#include "tools/admin/refused.h"
#include "tools/admin/show_devices.h"
#include "tools/admin/show_objects.h"
#include "tools/admin/show_queues.h"
#include "tools/admin/show_segments.h"
#include "tools/admin/show_settings.h"
#include "tools/admin/show_top.h"

namespace admin {
namespace {

constexpr char kPid[] = "[--pid P]";

constexpr Command kCommands[] = {
    {"show", "[--dev D] [--brief|--all] [--whole]", "list the devices, or all about them",
     "show --dev urma_shm0 --whole", show_devices},
    {"show topo [NODE]", "", "the machines that the devices connect", "show topo", show_topology},
    {"show dev D [jfc|jfs|jfr|jetty|jetty_group|rc|seg|tp|tpreuse] [ID]", kPid,
     "the objects that processes have on a device", "show dev urma_shm0 jetty", show_objects},
    {"show providers", kPid, "the providers that are loaded, and why others are not",
     "show providers", show_providers},
    {"show config", kPid, "each URMA_* setting, its value, and where that comes from",
     "show config --pid 4711", show_config},
    {"show segments", "[--pid P] [--dev D]",
     "the segments of processes, how their parts are reached, and why", "show segments --pid 4711",
     show_segments},
    {"show queues", "[--pid P] [--dev D] [--watch SECONDS] [--count N]",
     "the queues of processes with their counters", "show queues --pid 4711 --watch 1",
     show_queues},
    {"top", "[--pid P] [--dev D] [--watch SECONDS] [--count N] [--format text|json|prometheus]",
     "what queues are doing, the busiest first, updated repeatedly", "top --pid 4711", show_top},
    {"show processes", "", "the processes of this user that use the library", "show processes",
     show_processes},
    {"perf start", kPid, "discard earlier results, and measure the calls of the data path",
     "perf start --pid 4711", perf_start},
    {"perf stop", kPid, "stop measuring", "perf stop --pid 4711", perf_stop},
    {"perf show", kPid, "the measured times", "perf show --pid 4711", perf_show},

    {"eid add D IDX EID", "[--ns NS] [--mode static|dynamic]", "add an entry to the EID table",
     "eid add urma_shm0 2 fd00::1", eid_add},
    {"eid del D IDX", "", "remove an entry of the EID table", "eid del urma_shm0 1", eid_delete},
    {"eid set D IDX ns|mode VALUE", "", "move an EID to a namespace, or change its mode",
     "eid set urma_shm0 0 mode static", eid_set},
    {"dev set D ns|sl [NETNS]", "[--sl N] [--priority N]",
     "move a device to a namespace, or give a priority a service level",
     "dev set urma_shm0 sl --sl 1 --priority 1", device_set},
    {"dev expose D NETNS", "", "show a device in a namespace",
     "dev expose urma_shm0 /proc/4711/ns/net", device_expose},
    {"dev unexpose D NETNS", "", "hide a device in a namespace",
     "dev unexpose urma_shm0 /proc/4711/ns/net", device_expose},
    {"main_ue_eid insert EID MAIN", "", "set the main EID of an EID",
     "main_ue_eid insert fd00::1 fd00::2", main_eid_change},
    {"main_ue_eid delete EID", "", "forget the main EID of an EID", "main_ue_eid delete fd00::1",
     main_eid_change},
    {"main_ue_eid lookup EID", "", "the main EID of an EID", "main_ue_eid lookup fd00::1",
     main_eid_change},
    {"main_ue_eid flush", "", "forget all main EIDs", "main_ue_eid flush", main_eid_change},
    {"system show", "", "whether devices and EIDs are shared between namespaces", "system show",
     system_show},
    {"system set dev_sharing|eid_sharing on|off", "", "share them, or not",
     "system set dev_sharing on", system_set},
    {"agg add EID NAME", "", "make an aggregated device", "agg add fd00::1 bonding_dev_0",
     aggregate_add},
    {"agg del EID", "", "delete an aggregated device", "agg del fd00::1", aggregate_change},
    {"agg expose EID NETNS", "", "show an aggregated device in a namespace",
     "agg expose fd00::1 /proc/4711/ns/net", aggregate_change},

    {"add_eid", "--dev D --eid EID [--idx N] [--ns NS]", "as eid add",
     "add_eid --dev urma_shm0 --idx 2 --eid fd00::1", eid_add, "eid add"},
    {"del_eid", "--dev D [--idx N]", "as eid del", "del_eid --dev urma_shm0 --idx 1", eid_delete,
     "eid del"},
    {"set_eid_mode", "--dev D [--eid_mode]", "as eid set D IDX mode",
     "set_eid_mode --dev urma_shm0", set_eid_mode, "eid set D IDX mode"},
    {"show_stats", "--dev D --resource_type 4|5|6|8 [--key ID]",
     "counters of a JFS (4), JFR (5), jetty (6), or of all of a device (8)",
     "show_stats --dev urma_shm0 --resource_type 6 --key 65537", show_stats, "show queues"},
    {"show_res", "--dev D --resource_type 5..11 --key ID",
     "a JFS (5), JFR (6), jetty (7), group (8), JFC (9), RC jetty (10) or segment (11)",
     "show_res --dev urma_shm0 --resource_type 7 --key 65537", show_resource, "show dev D KIND ID"},
    {"list_res", "--dev D --resource_type 5..11", "all of those",
     "list_res --dev urma_shm0 --resource_type 7", list_resources, "show dev D KIND"},
    {"set_ns_mode", "--ns_mode 0|1", "share devices between namespaces (1), or not (0)",
     "set_ns_mode --ns_mode 1", set_ns_mode, "system set dev_sharing"},
    {"set_dev_ns", "--dev D --ns NS", "as dev set D ns",
     "set_dev_ns --dev urma_shm0 --ns /proc/4711/ns/net", set_device_ns, "dev set D ns"},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace admin
