"""What `./dev vm` runs: jobs, each in a guest of its own, and their cases.

A test of the tree is added by its name, to the list of its folder in a job whose `guests` are the
kernels it is to run on. The devices there are: see devices.sh.
"""

from cases import GUESTS, Job, both_ends, command, pair, test

# Where the two processes of a test are.
ONE_ADDRESS = ('rxe2', {'URMA_DEVICE': 'urma_rxe2'})
TWO_ADDRESSES = ('two addresses of rxe2', {'URMA_DEVICE': 'urma_rxe2', 'URMA_PEER_EID_INDEX': '1'})
SIW = ('siw0', {'URMA_DEVICE': 'urma_siw0'})
# At the two ends of a virtual cable, which only have link-local addresses.
TWO_DEVICES = ('rxe0 and rxe1', {'URMA_DEVICE': 'urma_rxe0', 'URMA_PEER_DEVICE': 'urma_rxe1',
                                 'URMA_TEST_LINK': 'net0'})
SHM = ('shm', {'URMA_DEVICE': 'urma_shm0'})
# What the kernel does to the connections of the tcp provider.
NETEM = ('netem', {})
TLS = ('TLS', {})
# The processors, as the HSA runtime sees them.
HSA = ('hsa0', {'URMA_DEVICE': 'urma_hsa0', 'URMA_ROCM_CPU': '1'})

# What User Mode Linux cannot run. It has one processor: two programs that poll for each other
# alternate every millisecond, and show no timely progress. Each pinned page is a mapping of its own
# on the host: a segment of 1 GiB needs more than vm.max_map_count.
UML_LACKING = {
    'perftest_faults': ['*Peer.*/write_lat', '*Peer.*/send_lat'],
    'clients_memory': ['Clients.C4_01_OrdinaryMemoryOfATargetThatMakesNoCall'],
}
# What Soft-iWARP cannot run: its requests have up to 6 pieces of memory, and some programs need 13.
SIW_LACKING = {
    'clients_device': ['Clients.C2_03_LimitsFitTheFieldsOfPrograms'],
}


def lacking(name, guest, place):
    """The test cases of a program that a guest or a place cannot run, as a filter."""
    cases = list(SIW_LACKING.get(name, [])) if place == SIW else []
    if guest == 'uml' and place not in (SHM, HSA):
        cases += UML_LACKING.get(name, [])
    return ':'.join(cases)


def tests(package, names, place, **options):
    """Bazel tests of a folder, in one of the places above."""
    where, environment = place
    return [test(f'//test/{package}:{name}_test', where, environment,
                 leave_out={guest: lacking(name, guest, place) for guest in GUESTS}, **options)
            for name in names.split()]


def port_is_active(device):
    state = f'/sys/class/infiniband/{device}/ports/1/state'
    return command(f'{device} is active', f'grep -q ACTIVE {state}')


def connects_on(device, address):
    """A connection by librdmacm."""
    # Not by rping, whose event thread may find its channel closed at the end, nor by ucmatose,
    # whose client ends with an error over iWARP in one of ten runs.
    return pair(f'librdmacm on {device}', f'rdma_server -s {address}', f'rdma_client -s {address}')


def on_siw():
    """Common programs on Soft-iWARP."""
    return [connects_on('siw0', '10.77.3.1'),
            pair('write on siw0', 'ib_write_bw -d siw0 -R -n 100 -s 65536 -F',
                 'ib_write_bw -d siw0 -R -n 100 -s 65536 -F 10.77.3.1')]


def examples(place, **environment):
    where, own = place
    # With a single processor, for some as slow as here, silence is no sign of death.
    environment.update(own, URMA_VERBS_TIMEOUT_MS='20000', DEMO_SECONDS='300')
    return command(f'examples ({where})', 'examples/demo.sh {bin}', 30, ['//examples:all'],
                   **environment)


def on_arm64():
    """What user emulation cannot run, and the conformance suite."""
    return [*tests('unit', 'core_data_api core_queue_api core_target_api direct in_place '
                   'in_place_fork in_place_futex in_place_io in_place_limits in_place_own_memory '
                   'in_place_refusal in_place_restore in_place_stack in_place_steps mapped ring '
                   'segment', SHM),
            *tests('process', 'event kill mapping restart', SHM, limit=20),
            *tests('conformance', 'lines two_process', SHM, limit=30),
            *tests('conformance', 'opcode_matrix_copied', SHM, limit=30,
                   only='*JettyTwoProcessesNoToken')]


def provider_parts():
    """Tests of the verbs provider's parts that look for devices themselves."""
    environment = {'URMA_TEST_VERBS_DEVICE': 'urma_rxe2'}
    return [test('//test/verbs:device_on_machine_test', 'all devices', environment),
            test('//test/verbs:data_path_on_device_test', 'rxe2', environment, limit=20)]


# The conformance suite, except what takes minutes in QEMU, and what several processes do to each
# other.
PROGRAMS = ('two_process threads clients_completion clients_device clients_life '
            'clients_memory')
SUITE = 'lines ' + PROGRAMS
PROCESSES = ('advise alias atomics bind channel errors event event_sleep group immediate '
             'invalidate kill large_message lifecycle notifier notify progress request restart '
             'state um unbind user_segment')

JOBS = [
    # The devices, and common programs on them: a failure here is not ours.
    Job('devices', guests=['qemu', 'uml'], devices=True, cases=[
        port_is_active('rxe0'),
        port_is_active('rxe1'),
        port_is_active('rxe2'),
        port_is_active('siw0'),
        both_ends('RC, polling', 'ibv_rc_pingpong -d {device} -g 0 -n 100'),
        both_ends('UD', 'ibv_ud_pingpong -d {device} -g 0 -n 100 -s 1024'),
        pair('RC, two addresses of one device', 'ibv_rc_pingpong -d rxe2 -g 1 -n 100',
             'ibv_rc_pingpong -d rxe2 -g 2 -n 100 127.0.0.1'),
        connects_on('rxe2', '10.77.2.1'),
    ]),
    Job('field', guests=['uml'], devices=True, cases=[
        both_ends('RC, events', 'ibv_rc_pingpong -d {device} -g 0 -n 100 -e'),
        both_ends('UC', 'ibv_uc_pingpong -d {device} -g 0 -n 100'),
        both_ends('SRQ', 'ibv_srq_pingpong -d {device} -g 0 -n 100'),
        both_ends('RC write', 'ib_write_bw -d {device} -x 0 -n 100 -s 65536 -F'),
        both_ends('RC read', 'ib_read_bw -d {device} -x 0 -n 100 -s 65536 -F'),
        both_ends('RC atomics', 'ib_atomic_lat -d {device} -x 0 -n 100 -F'),
    ]),
    # iWARP only connects through librdmacm.
    Job('siw', guests=['qemu'], devices=True, seconds=600, cases=[
        *on_siw(),
        *tests('conformance', SUITE, SIW, limit=30),
        *tests('process', 'kill', SIW, only='*OneSided', limit=20),
    ]),
    Job('siw', guests=['uml'], devices=True, cases=[
        *on_siw(),
        *tests('conformance', 'two_process threads product_copied', SIW, limit=30),
        *tests('process', 'kill', SIW, only='*OneSided', limit=20),
    ]),
    # The verbs provider.
    Job('rxe-suite', guests=['qemu'], devices=True, seconds=600, cases=[
        *tests('conformance', 'two_process lines', TWO_ADDRESSES, limit=30),
        *tests('conformance', PROGRAMS, TWO_DEVICES, limit=30),
    ]),
    Job('rxe', guests=['qemu'], devices=True, seconds=600, cases=[
        *provider_parts()[:1],
        # A killed peer, a restarted one, and a removed cable.
        *tests('process', 'kill', TWO_DEVICES, only='*OneSided', limit=20),
        *tests('process', 'restart', TWO_ADDRESSES, limit=20),
        *tests('process', 'link', TWO_DEVICES, only='*ShortOutage', limit=20),
        # A few iterations each.
        *tests('tools', 'perftest_modes', TWO_DEVICES, limit=30,
               only='*Header/*RmDuplex:*Header/send_latRcDuplex:*Header/send_latUmDuplex'),
        # Each in C; a program takes seconds to start there.
        examples(ONE_ADDRESS, DEMO_EXAMPLES='send_recv_polling send_recv_event segment mapped '
                                            'one_to_many event_loop'),
    ]),
    Job('rxe-suite', guests=['uml'], devices=True, seconds=600, cases=[
        *provider_parts(),
        *tests('conformance', SUITE + ' product_copied', TWO_ADDRESSES, limit=30),
        command('what the kernel refuses', 'test/vm/refusals.py {bin}/tools/admin/urma_admin '
                '{bin}/tools/perftest/urma_perftest', 30,
                ['//tools/admin:urma_admin', '//tools/perftest:urma_perftest']),
        examples(ONE_ADDRESS),
    ]),
    Job('rxe-devices', guests=['uml'], devices=True, seconds=600, cases=[
        *tests('conformance', SUITE, TWO_DEVICES, limit=30),
        *tests('conformance', 'opcode_matrix_copied', TWO_DEVICES, limit=60,
               only='*TwoProcessesToken'),
    ]),
    Job('rxe-processes', guests=['uml'], devices=True, seconds=600, cases=[
        *tests('process', PROCESSES, ONE_ADDRESS, limit=20),
    ]),
    Job('rxe-pairs', guests=['uml'], devices=True, seconds=600, cases=[
        *tests('process', 'atomics immediate notify', TWO_ADDRESSES, limit=20),
        *tests('process', 'kill progress link', TWO_DEVICES, limit=20),
        command('the cable is taken away', 'test/vm/link.py {bin}/tools/perftest/urma_perftest', 60,
                ['//tools/perftest:urma_perftest']),
        examples(TWO_DEVICES),
    ]),
    Job('rxe-tools', guests=['uml'], devices=True, seconds=600, cases=[
        *tests('tools', 'perftest_modes perftest_faults perftest_verify', TWO_DEVICES, limit=60),
    ]),
    # The shm provider on a kernel other than the host's; in QEMU only tests that need two
    # processors or huge pages and are not slow there. Not kill_test: busy processes share two slow
    # processors, and a live one may be silent for longer than the timeout of the provider.
    Job('shm', guests=['qemu'], seconds=600, cases=[
        *tests('unit', 'core_data_api devices in_place_futex in_place_own_memory reactor ring '
               'runtime_dir', SHM),
        *tests('process', 'event mapping', SHM),
        *tests('process', 'atomics', SHM, only='*Mapped'),
        *tests('conformance', 'two_process', SHM),
    ]),
    # The same on aarch64; with larger pages, memory is never mapped.
    Job('shm', guests=['arm64'], seconds=1800, cases=[
        *on_arm64(),
        *tests('process', 'atomics', SHM, limit=20),
        *tests('conformance', 'opcode_matrix_mapped', SHM, limit=30,
               only='*JettyTwoProcessesNoToken'),
        *tests('conformance', 'event_matrix_mapped', SHM, limit=30),
    ]),
    Job('shm', guests=['arm64-16k', 'arm64-64k'], seconds=1800, cases=on_arm64()),
    # Atomics on a processor without instructions for them.
    Job('atomics', guests=['arm64-a72'], seconds=600, cases=[
        *tests('unit', 'core_atomics_api direct owner_lock ring short_mutex', SHM),
        *tests('process', 'atomics', SHM, limit=20),
        *tests('conformance', 'opcode_matrix_mapped', SHM, limit=30,
               only='*JettyTwoProcessesNoToken'),
    ]),
    Job('shm', guests=['uml'], cases=[
        *tests('unit', 'core_data_api core_queue_api core_target_api devices hostile_message '
               'hostile_wakeup implicit_imports in_place in_place_fork in_place_futex '
               'in_place_limits in_place_own_memory in_place_refusal in_place_restore '
               'in_place_stack log_sink mapped owner_lock probe reactor ring runtime_dir segment '
               'service_thread settings short_mutex transport', SHM),
        *tests('process', 'atomics channel errors event kill mapping mapping_rights notify request '
               'unprivileged', SHM),
        *tests('conformance', 'lines two_process', SHM),
    ]),
    # The tcp provider, over a link that the kernel makes bad, and over TLS in the kernel.
    Job('tcp', guests=['uml'], seconds=600, cases=[
        *tests('tcp', 'trust', TLS),
        *tests('tcp', 'secured_by_psk secured_by_certificates', TLS, limit=60,
               only='SecuredTest.*:TwoProcesses.*:*/OpcodeMatrix.*/*RcJettyTwoProcessesToken'),
        *tests('tcp', 'weather_netem_delay weather_netem_loss weather_netem_rate '
               'weather_netem_reorder', NETEM, limit=60),
    ]),
    # Debian's ROCr over Debian's amdgpu, without a GPU. The runtime's calls for other processes end
    # with a signal there, so this also checks that they are not called.
    Job('rocm', guests=['qemu'], kfd=True, seconds=900, cases=[
        *tests('rocm', 'runtime', ('kfd', {}), only='*DriverWithoutGpu:*NoPermission'),
        *tests('rocm', 'real_rocr_host', ('kfd', {}), only='RealRocrMemory.*', limit=20),
        *tests('conformance', 'two_process', HSA, limit=20),
        *tests('conformance', 'lines', HSA, limit=30),
        *tests('conformance', 'opcode_matrix_copied', HSA, limit=30,
               only='*RcJettyTwoProcessesToken'),
    ]),
    # A sanitizer in the guest; User Mode Linux has no room for its shadow memory.
    Job('sanitizer', guests=['qemu'], devices=True, seconds=600, cases=[
        *tests('conformance', 'two_process', SHM, config='asan'),
        *tests('conformance', 'two_process', TWO_ADDRESSES, config='asan', limit=20),
    ]),
    # urma_perftest compared with perftest.
    Job('compare', guests=['uml'], devices=True, alone=True, cases=[
        command('urma_perftest beside perftest',
                'test/vm/compare.py {bin}/tools/perftest/urma_perftest', 60,
                ['//tools/perftest:urma_perftest']),
    ]),
]
