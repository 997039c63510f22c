"""What `./dev vm` runs: jobs, each in a guest of its own, and their cases.

A test of the tree is added by one line, as
    test('//test/verbs:write_test', URMA_TEST_DEVICE='urma_rxe0'),
to a job whose `guests` are the kernels it is to run on. The devices there are: see devices.sh.
"""

from cases import Job, both_ends, command, pair, test


def port_is_active(device):
    state = f'/sys/class/infiniband/{device}/ports/1/state'
    return command(f'{device} is active', f'grep -q ACTIVE {state}')


def unit_tests(*names):
    return [test(f'//test/unit:{name}_test') for name in names]


def process_tests(*names):
    return [test(f'//test/process:{name}_test') for name in names]


JOBS = [
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
    # The shm provider on another kernel than the machine's; in QEMU what needs two processors or
    # huge pages, and does not take minutes there.
    Job('shm', guests=['qemu'], seconds=600, cases=[
        *unit_tests(
            'core_data_api', 'devices', 'in_place_fork', 'in_place_futex', 'in_place_own_memory',
            'in_place_refusal', 'reactor', 'ring', 'runtime_dir'),
        *process_tests('atomics', 'event', 'kill', 'mapping'),
        test('//test/conformance:two_process_test'),
    ]),
    Job('shm', guests=['uml'], cases=[
        *unit_tests(
            'core_data_api', 'core_queue_api', 'core_target_api', 'devices', 'hostile_message',
            'hostile_wakeup', 'implicit_imports', 'in_place', 'in_place_fork', 'in_place_futex',
            'in_place_limits', 'in_place_own_memory', 'in_place_refusal', 'in_place_restore',
            'in_place_stack', 'log_sink', 'mapped', 'owner_lock', 'probe', 'reactor', 'ring',
            'runtime_dir', 'segment', 'service_thread', 'settings', 'transport'),
        *process_tests(
            'atomics', 'channel', 'errors', 'event', 'kill', 'mapping', 'mapping_rights', 'notify',
            'request', 'unprivileged'),
        test('//test/conformance:lines_test'),
        test('//test/conformance:two_process_test'),
    ]),
    # A sanitizer in the guest; User Mode Linux has no room for its shadow.
    Job('sanitizer', guests=['qemu'], cases=[
        test('//test/conformance:two_process_test', config='asan'),
    ]),
]
