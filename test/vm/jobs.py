"""What `./dev vm` runs: jobs, each in a guest of its own, and their cases.

A test of the tree is added by one line, as
    *tests('conformance', 'product_copied', ONE_ADDRESS),
to a job whose `guests` are the kernels it is to run on. The devices there are: see devices.sh.
"""

from cases import Job, both_ends, command, pair, test

# Where the two processes of a test are.
ONE_ADDRESS = {'URMA_DEVICE': 'urma_rxe2'}
TWO_ADDRESSES = {'URMA_DEVICE': 'urma_rxe2', 'URMA_PEER_EID_INDEX': '1'}
# At the two ends of a virtual cable, which have link-local addresses only.
TWO_DEVICES = {'URMA_DEVICE': 'urma_rxe0', 'URMA_PEER_DEVICE': 'urma_rxe1'}
SHARED_MEMORY = {'URMA_DEVICE': 'urma_shm0'}
NAMES = [(ONE_ADDRESS, 'rxe2'), (TWO_ADDRESSES, 'two addresses of rxe2'),
         (TWO_DEVICES, 'rxe0 and rxe1'), (SHARED_MEMORY, 'shm')]


def tests(package, names, place, config='', limit=10, only='*'):
    """Bazel tests at one of the places above; ONLY is a filter of GoogleTest."""
    where = next(name for other, name in NAMES if other is place)
    environment = place if only == '*' else {**place, 'GTEST_FILTER': only}
    return [test(f'//test/{package}:{name}_test', config, where, limit, **environment)
            for name in names.split()]


def port_is_active(device):
    state = f'/sys/class/infiniband/{device}/ports/1/state'
    return command(f'{device} is active', f'grep -q ACTIVE {state}')


def on_devices(name):
    """A test of the provider's parts that looks for devices itself."""
    return test(f'//test/verbs:{name}_test', URMA_TEST_VERBS_DEVICE='rxe2')


def examples(name, place, limit=20):
    return command(f'examples on {name}', 'examples/demo.sh {bin}', limit, ['//examples:all'],
                   **place)


# The programs that the whole list of the conformance suite is made of.
SUITE = ('two_process lines threads product_copied opcode_matrix_copied event_matrix_copied '
         'clients_completion clients_device clients_life clients_memory')
# What several processes do to each other.
PROCESSES = ('advise alias atomics bind channel errors event event_sleep group immediate '
             'invalidate kill large_message lifecycle notifier notify progress request restart '
             'state um unbind user_segment')

JOBS = [
    Job('all1', guests=['uml'], devices=True, seconds=900, cases=[
        *tests('conformance', SUITE, ONE_ADDRESS, limit=20),
        *tests('process', PROCESSES, ONE_ADDRESS, limit=20)]),
    Job('all2', guests=['uml'], devices=True, seconds=900, cases=[
        *tests('conformance', SUITE, TWO_ADDRESSES, limit=20),
        *tests('process', PROCESSES, TWO_ADDRESSES, limit=20)]),
    Job('all3', guests=['uml'], devices=True, seconds=900, cases=[
        *tests('conformance', SUITE, TWO_DEVICES, limit=20),
        *tests('process', PROCESSES, TWO_DEVICES, limit=20),
        test('//test/process:link_test', URMA_TEST_LINK='net0', **TWO_DEVICES)]),
    Job('tools', guests=['uml'], devices=True, seconds=900, cases=[
        *tests('tools', 'perftest_modes', ONE_ADDRESS, limit=60),
        *tests('tools', 'perftest_faults perftest_verify perftest_output perftest_pairs perftest_raw', TWO_DEVICES, limit=60),
        command('the cable is taken away', 'test/vm/link.py {bin}/tools/perftest/urma_perftest', 60,
                ['//tools/perftest:urma_perftest']),
        examples('rxe2', ONE_ADDRESS), examples('rxe0 and rxe1', TWO_DEVICES),
        on_devices('device_on_machine'), on_devices('data_path_on_device'),
        ]),
    # The devices, and programs of the field on them: what fails here is not ours.
    Job('rdma', guests=['qemu', 'uml'], devices=True, cases=[
        port_is_active('rxe0'),
        port_is_active('rxe1'),
        port_is_active('rxe2'),
        port_is_active('siw0'),
        both_ends('RC, polling', 'ibv_rc_pingpong -d {device} -g 0 -n 100'),
        both_ends('RC, events', 'ibv_rc_pingpong -d {device} -g 0 -n 100 -e'),
        both_ends('UC', 'ibv_uc_pingpong -d {device} -g 0 -n 100'),
        both_ends('UD', 'ibv_ud_pingpong -d {device} -g 0 -n 100 -s 1024'),
        both_ends('SRQ', 'ibv_srq_pingpong -d {device} -g 0 -n 100'),
        both_ends('RC write', 'ib_write_bw -d {device} -x 0 -n 100 -s 65536 -F'),
        both_ends('RC read', 'ib_read_bw -d {device} -x 0 -n 100 -s 65536 -F'),
        both_ends('RC atomics', 'ib_atomic_lat -d {device} -x 0 -n 100 -F'),
        pair('RC, two addresses of one device', 'ibv_rc_pingpong -d rxe2 -g 1 -n 100',
             'ibv_rc_pingpong -d rxe2 -g 2 -n 100 127.0.0.1'),
        pair('rping on rxe2', 'rping -s -a 10.77.2.1 -C 10', 'rping -c -a 10.77.2.1 -C 10'),
        pair('rping on siw0', 'rping -s -a 10.77.3.1 -C 10', 'rping -c -a 10.77.3.1 -C 10'),
        pair('write on siw0', 'ib_write_bw -d siw0 -R -n 100 -s 65536 -F',
             'ib_write_bw -d siw0 -R -n 100 -s 65536 -F 10.77.3.1'),
    ]),
    Job('quick', guests=['qemu'], devices=True, seconds=600, cases=[
        *tests('conformance', 'two_process', TWO_ADDRESSES, limit=20),
        *tests('conformance', 'two_process', TWO_DEVICES, limit=20),
        *tests('conformance', 'lines', ONE_ADDRESS, limit=40, only='DeviceLines.*S1*'),
        *tests('tools', 'perftest_modes', TWO_DEVICES, limit=40,
               only='*/*RmDuplex:*/send_latRcDuplex:*/send_latUmDuplex'),
        examples('rxe2', ONE_ADDRESS),
        on_devices('device_on_machine'),
    ]),
    # The shm provider on another kernel than the machine's; in QEMU what needs two processors or
    # huge pages, and does not take minutes there.
    Job('shm', guests=['qemu'], seconds=600, cases=[
        *tests('unit', 'core_data_api devices in_place_fork in_place_futex in_place_own_memory '
               'in_place_refusal reactor ring runtime_dir', SHARED_MEMORY),
        *tests('process', 'atomics event kill mapping', SHARED_MEMORY),
        *tests('conformance', 'two_process', SHARED_MEMORY),
    ]),
    Job('shm', guests=['uml'], cases=[
        *tests('unit', 'core_data_api core_queue_api core_target_api devices hostile_message '
               'hostile_wakeup implicit_imports in_place in_place_fork in_place_futex '
               'in_place_limits in_place_own_memory in_place_refusal in_place_restore '
               'in_place_stack log_sink mapped owner_lock probe reactor ring runtime_dir segment '
               'service_thread settings transport', SHARED_MEMORY),
        *tests('process', 'atomics channel errors event kill mapping mapping_rights notify request '
               'unprivileged', SHARED_MEMORY),
        *tests('conformance', 'lines two_process', SHARED_MEMORY),
    ]),
    # A sanitizer in the guest; User Mode Linux has no room for its shadow.
    Job('sanitizer', guests=['qemu'], devices=True, cases=[
        *tests('conformance', 'two_process', SHARED_MEMORY, 'asan'),
        *tests('conformance', 'two_process', TWO_ADDRESSES, 'asan', limit=20),
    ]),
]
