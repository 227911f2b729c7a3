import type { DomainReason, DomainStatus } from '../../src/api/index.ts';
import type { Stage } from './stage.ts';
import { agentChannel, type Json, macOf } from './started-domain.ts';

export interface Scenario {
  readonly name: string;
  readonly play: (stage: Stage) => Promise<void>;
}

const scenario = (name: string, play: Scenario['play']): Scenario => ({ name, play });
const final = (vmi: Json) => ['Succeeded', 'Failed'].includes(vmi.status.phase);

/** A VMI that only has to start: what is written and asked depends on its spec. */
const starts = (name: string, change: (vmi: Json) => void): Scenario => scenario(name, (stage) => stage.run(change));

const withDomain = (change: (domain: Json) => void) => (vmi: Json) => change(vmi.spec.domain);

function network(binding: Json) {
  return (vmi: Json) => {
    vmi.spec.domain.devices.interfaces = [{ name: 'default', ...binding }];
    vmi.spec.networks = [{ name: 'default', pod: {} }];
    delete vmi.spec.domain.devices.autoattachPodInterface;
  };
}

function volume(name: string, source: Json, disk: Json = { disk: { bus: 'virtio' } }) {
  return (vmi: Json) => {
    vmi.spec.domain.devices.disks.push({ name, ...disk });
    vmi.spec.volumes.push({ name, ...source });
    vmi.status.volumeStatus ??= [{ name: 'root', target: '' }];
  };
}

function claim(accessModes: readonly string[], volumeMode: 'Filesystem' | 'Block' = 'Filesystem') {
  return (vmi: Json) => {
    volume('data', { persistentVolumeClaim: { claimName: 'data' } })(vmi);
    const size = { storage: '1Gi' };
    vmi.status.volumeStatus.push({
      name: 'data',
      target: '',
      persistentVolumeClaimInfo: {
        ...{ claimName: 'data', accessModes, volumeMode, capacity: size, requests: size },
        filesystemOverhead: '0.055',
      },
    });
  };
}

const starting: readonly Scenario[] = [
  starts('start-plain', () => undefined),
  scenario('start-define-first', (stage) =>
    stage.run(undefined, (launcher) => {
      launcher.definesFirst = true;
    }),
  ),
  starts('start-masquerade', network({ masquerade: {} })),
  starts('start-bridge', network({ bridge: {} })),
  starts('start-bridge-allowed', (vmi) => {
    network({ bridge: {} })(vmi);
    vmi.metadata.annotations['kubevirt.io/allow-pod-bridge-network-live-migration'] = '';
  }),
  starts('start-pvc-rwo', claim(['ReadWriteOnce'])),
  starts('start-pvc-rwx', claim(['ReadWriteMany'])),
  starts('start-pvc-preallocated', (vmi) => {
    claim(['ReadWriteMany'])(vmi);
    vmi.status.volumeStatus[1].persistentVolumeClaimInfo.preallocated = true;
  }),
  starts('start-host-disk', (vmi) =>
    volume('hostfile', {
      hostDisk: {
        path: '/var/run/kubevirt-private/vmi-disks/hostfile/disk.img',
        type: 'DiskOrCreate',
        capacity: '8Mi',
      },
    })(vmi),
  ),
  starts('start-cloud-init', volume('seed', { cloudInitNoCloud: { userData: '#cloud-config\n' } })),
  starts('start-cloud-init-config-drive', volume('seed', { cloudInitConfigDrive: { userData: '#cloud-config\n' } })),
  starts('start-config-map', volume('settings', { configMap: { name: 'settings' } })),
  starts('start-container-disk-image', (vmi) => {
    vmi.status.volumeStatus = [{ name: 'root', target: '', containerDiskVolume: {} }];
  }),
  starts('start-lun-reservation', claimWithReservation()),
  starts(
    'start-efi',
    withDomain((domain) => {
      domain.firmware.bootloader = { efi: { secureBoot: false } };
    }),
  ),
  starts(
    'start-dedicated-cpus',
    withDomain((domain) => Object.assign(domain.cpu, { dedicatedCpuPlacement: true })),
  ),
  starts(
    'start-sev',
    withDomain((domain) => {
      domain.launchSecurity = { sev: {} };
    }),
  ),
  starts(
    'start-sev-attestation',
    withDomain((domain) => {
      domain.launchSecurity = { sev: { attestation: {} } };
    }),
  ),
  starts(
    'start-host-device',
    withDomain((domain) => {
      domain.devices.hostDevices = [{ name: 'nic', deviceName: 'vendor.com/nic' }];
    }),
  ),
  starts(
    'start-gpu',
    withDomain((domain) => {
      domain.devices.gpus = [{ name: 'gpu', deviceName: 'vendor.com/gpu' }];
    }),
  ),
  starts(
    'start-host-model',
    withDomain((domain) => {
      domain.cpu.model = 'host-model';
    }),
  ),
  starts(
    'start-hyperv-passthrough',
    withDomain((domain) => {
      domain.features = { hypervPassthrough: { enabled: true } };
    }),
  ),
  starts(
    'start-hyperv-reenlightenment',
    withDomain((domain) => {
      domain.features = { hyperv: { reenlightenment: { enabled: true } } };
    }),
  ),
  starts('start-eviction-not-migratable', (vmi) => {
    vmi.spec.domain.launchSecurity = { sev: {} };
    vmi.spec.evictionStrategy = 'LiveMigrate';
  }),
  starts('start-eviction-if-possible', (vmi) => {
    claim(['ReadWriteOnce'])(vmi);
    vmi.spec.evictionStrategy = 'LiveMigrateIfPossible';
  }),
  starts('start-non-root-no', (vmi) => {
    vmi.status.runtimeUser = 0;
  }),
  scenario('start-sync-fails', async (stage) => {
    await stage.create();
    await stage.startLauncher((launcher) => launcher.fail('syncVirtualMachine', 'something "quoted" is wrong'));
    await stage.schedule();
    await stage.look('failing', (vmi) => Boolean(vmi.status.conditions?.length));
    stage.launcher.heal('syncVirtualMachine');
    await stage.look('healed', (vmi) => vmi.status.phase === 'Running');
  }),
  scenario('start-efi-rom-missing', async (stage) => {
    await stage.create();
    await stage.startLauncher((launcher) =>
      launcher.fail('syncVirtualMachine', 'EFI OVMF rom missing for secure boot'),
    );
    await stage.schedule();
    await stage.look('failed', final);
  }),
  scenario('start-no-launcher-yet', async (stage) => {
    await stage.create();
    await stage.schedule();
    await stage.look('waits');
  }),
  scenario('start-deleted-before', async (stage) => {
    await stage.create();
    await stage.startLauncher();
    await stage.delete();
    await stage.schedule();
    await stage.look('ended', final);
  }),
  scenario('start-of-another-node', async (stage) => {
    await stage.create();
    await stage.startLauncher();
    await stage.schedule({ nodeName: 'elsewhere' });
    await stage.look('untouched');
  }),
];

function claimWithReservation() {
  return (vmi: Json) => {
    claim(['ReadWriteMany'], 'Block')(vmi);
    vmi.spec.domain.devices.disks[1] = { name: 'data', lun: { bus: 'scsi', reservation: true } };
  };
}

const commands = [
  ...['guest-ping', 'guest-get-time', 'guest-info', 'guest-shutdown', 'guest-network-get-interfaces'],
  ...['guest-get-fsinfo', 'guest-get-host-name', 'guest-get-users', 'guest-get-timezone', 'guest-get-osinfo'],
];
const enabled = (names: readonly string[]) => names.map((name) => ({ name, enabled: true }));
const connect = (domain: Json) => {
  domain.Spec.Devices.Channels = [agentChannel('connected')];
};
const disconnect = (domain: Json) => {
  domain.Spec.Devices.Channels = [agentChannel('disconnected')];
};
const agentSays = (vmi: Json) => Boolean(vmi.status.conditions?.some(({ type }: Json) => type === 'AgentConnected'));

function tellAboutGuest(domain: Json): void {
  domain.Status.Interfaces = [
    { Mac: macOf(0), Ip: '10.0.2.2', IPs: ['10.0.2.2', 'fe80::1', 'fd00::2'], InterfaceName: 'enp1s0' },
    { Mac: '52:54:00:ff:00:01', Ip: '172.17.0.1', IPs: ['172.17.0.1'], InterfaceName: 'docker0' },
  ];
  domain.Status.OSInfo = {
    Name: 'Fedora Linux',
    KernelRelease: '6.11.4',
    Version: '41 (Cloud Edition)',
    PrettyName: 'Fedora Linux 41 (Cloud Edition)',
    VersionId: '41',
    KernelVersion: '#1 SMP',
    Machine: 'x86_64',
    Id: 'fedora',
  };
}

const running: readonly Scenario[] = [
  scenario('guest-agent', async (stage) => {
    await stage.run(network({ masquerade: {} }));
    stage.launcher.guestInfo({ guestAgentVersion: '9.1.0', supportedCommands: enabled(commands) });
    stage.launcher.change((domain) => {
      connect(domain);
      tellAboutGuest(domain);
    });
    await stage.look('connected', agentSays);
    stage.launcher.change(disconnect);
    await stage.look('disconnected', (vmi) => !agentSays(vmi));
  }),
  scenario('guest-agent-unsupported', async (stage) => {
    await stage.run();
    stage.launcher.guestInfo({ guestAgentVersion: '9.1.0', supportedCommands: enabled(commands.slice(1)) });
    stage.launcher.change(connect);
    await stage.look('connected', agentSays);
    stage.launcher.guestInfo({ guestAgentVersion: '9.1.0', supportedCommands: enabled(commands) });
    stage.launcher.change((domain) => tellAboutGuest(domain));
    await stage.look('told more');
    stage.launcher.change(disconnect);
    await stage.look('disconnected', (vmi) => !agentSays(vmi));
  }),
  scenario('guest-agent-old', async (stage) => {
    await stage.run();
    stage.launcher.guestInfo({ guestAgentVersion: '1.0.1' });
    stage.launcher.change(connect);
    await stage.look('connected', agentSays);
  }),
  scenario('pause-by-user', async (stage) => {
    await stage.run();
    stage.launcher.become('Paused', 'User');
    await stage.look('paused', (vmi) => hasCondition(vmi, 'Paused'));
    stage.launcher.become('Running', 'Unknown');
    await stage.look('runs again', (vmi) => !hasCondition(vmi, 'Paused'));
  }),
  scenario('pause-by-io-error', async (stage) => {
    await stage.run();
    stage.launcher.become('Paused', 'IOError');
    const { metadata } = await stage.vmi();
    const { uid, namespace, name, resourceVersion } = metadata;
    const involvedObject = {
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachineInstance',
      namespace,
      name,
      uid,
      resourceVersion,
    };
    await stage.launcher.sendEvent({
      type: 'Warning',
      reason: 'IOerror',
      message: 'VM Paused due to IO error',
      involvedObject,
    });
    await stage.look('paused', (vmi) => hasCondition(vmi, 'Paused'));
    stage.launcher.become('Running', 'Unknown');
    await stage.look('runs again', (vmi) => !hasCondition(vmi, 'Paused'));
  }),
  scenario('pause-by-watchdog', async (stage) => {
    await stage.run();
    stage.launcher.become('Paused', 'Watchdog');
    await stage.look('paused');
  }),
  scenario('starts-paused', (stage) =>
    stage.run(
      (vmi) => {
        vmi.spec.startStrategy = 'Paused';
      },
      (launcher) => {
        launcher.shape = (domain) => Object.assign(domain.Status, { Status: 'Paused', Reason: 'User' });
      },
    ),
  ),
  ...(['PMSuspended', 'Blocked', 'NoState', 'ShuttingDown'] as const).map((status) =>
    scenario(`state-${status.toLowerCase()}`, async (stage) => {
      await stage.run();
      stage.launcher.become(status, 'Unknown');
      await stage.look('changed');
    }),
  ),
  scenario('iso-sizes', (stage) =>
    stage.run((vmi) => {
      volume('seed', { cloudInitNoCloud: { userData: '#cloud-config\n' } })(vmi);
      volume('settings', { configMap: { name: 'settings' } })(vmi);
      vmi.status.volumeStatus.push({ name: 'seed', target: '' }, { name: 'settings', target: '' });
    }),
  ),
  scenario('hot-plugged-volume-attached', async (stage) => {
    await stage.run();
    const hot = { name: 'hot', target: '', phase: 'MountedToPod', reason: 'VolumeMountedToPod' };
    const hotplugVolume = { attachPodName: 'hp', attachPodUID: 'hp-1' };
    stage.launcher.change((domain) => {
      const [root] = domain.Spec.Devices.Disks ?? [];
      const disk: Json = {
        ...root,
        Alias: { Name: 'hot', UserDefined: true },
        Target: { Bus: 'scsi', Device: 'sda', Tray: '' },
      };
      domain.Spec.Devices.Disks = [...(domain.Spec.Devices.Disks ?? []), disk];
    });
    await stage.patch({
      status: {
        volumeStatus: [
          { ...hot, hotplugVolume },
          { name: 'root', target: 'vda' },
        ],
      },
    });
    await stage.look('attached', (vmi) => vmi.status.volumeStatus?.some(({ phase }: Json) => phase === 'Ready'));
  }),
  scenario('queues-and-links', (stage) =>
    stage.run(network({ masquerade: {} }), (launcher) => {
      launcher.shape = (domain) => {
        for (const entry of domain.Spec.Devices.Interfaces ?? [])
          Object.assign(entry, { Driver: { Name: 'vhost', Queues: 4 }, LinkState: { State: 'down' } });
      };
    }),
  ),
  scenario('freeze', async (stage) => {
    await stage.run();
    stage.launcher.change((domain) => {
      domain.Status.FSFreezeStatus = { Status: 'frozen' };
    });
    await stage.look('frozen', (vmi) => vmi.status.fsFreezeStatus === 'frozen');
    stage.launcher.change((domain) => {
      domain.Status.FSFreezeStatus = { Status: 'thawed' };
    });
    await stage.look('thawed', (vmi) => !vmi.status.fsFreezeStatus);
  }),
  scenario('access-credentials', async (stage) => {
    await stage.run();
    const tell = (Succeeded: boolean, Message: string) =>
      stage.launcher.change((domain) => {
        domain.Spec.Metadata.KubeVirt.AccessCredential = { Succeeded, Message };
      });
    tell(true, '');
    await stage.look('synchronized', (vmi) => hasCondition(vmi, 'AccessCredentialsSynchronized'));
    tell(false, 'no agent');
    await stage.look('failed', (vmi) =>
      vmi.status.conditions?.some(
        ({ type, status }: Json) => type === 'AccessCredentialsSynchronized' && status === 'False',
      ),
    );
  }),
  scenario('multus-interfaces', async (stage) => {
    await stage.create((vmi) => {
      network({ masquerade: {} })(vmi);
      vmi.status.interfaces = [
        { name: 'default', podInterfaceName: 'eth0', infoSource: 'multus-status' },
        { name: 'blue', podInterfaceName: 'pod16477688c0e', infoSource: 'multus-status' },
      ];
    });
    await stage.startLauncher();
    await stage.schedule();
    await stage.look('started', (vmi) => vmi.status.phase === 'Running');
  }),
  scenario('labels-changed', async (stage) => {
    await stage.run();
    await stage.patch({ metadata: { labels: { tier: 'gold' }, annotations: { note: 'kept' } } });
    await stage.look('changed');
  }),
  scenario('memory-balloon', async (stage) => {
    await stage.run();
    stage.launcher.change((domain) => {
      domain.Spec.CurrentMemory = { Value: 262_145, Unit: 'KiB' };
    });
    await stage.look('smaller', (vmi) => vmi.status.memory?.guestCurrent !== '512Mi');
  }),
];

function hasCondition(vmi: Json, wanted: string): boolean {
  return Boolean(vmi.status.conditions?.some(({ type }: Json) => type === wanted));
}

/** A guest that ends by itself; then virt-controller lets the object go. */
function ends(
  name: string,
  status: DomainStatus,
  reason: DomainReason,
  change: (vmi: Json) => void = () => undefined,
): Scenario {
  return scenario(name, async (stage) => {
    await stage.run(change);
    stage.launcher.become(status, reason);
    await stage.look('ended', final);
    await stage.launcher.remove();
    await stage.delete();
    await stage.letGo();
    await stage.look('gone');
  });
}

const ending: readonly Scenario[] = [
  ends('end-shutdown', 'Shutoff', 'Shutdown'),
  ends('end-destroyed', 'Shutoff', 'Destroyed'),
  ends('end-crashed', 'Crashed', 'Crashed'),
  ends('end-panicked', 'Crashed', 'Panicked'),
  ends('end-failed', 'Shutoff', 'Failed'),
  ends('end-saved', 'Shutoff', 'Saved'),
  ends('end-snapshot', 'Shutoff', 'FromSnapshot'),
  ends('end-unexplained', 'Shutoff', 'Unknown'),
  ends('end-post-copy-failed', 'Paused', 'PostcopyFailed'),
  ends('end-destroyed-without-grace', 'Shutoff', 'Destroyed', (vmi) => {
    vmi.spec.terminationGracePeriodSeconds = 0;
  }),
  scenario('end-deleted-while-paused', async (stage) => {
    await stage.run();
    stage.launcher.become('Paused', 'User');
    await stage.look('paused', (vmi) => hasCondition(vmi, 'Paused'));
    await stage.delete();
    await stage.look('ended', final);
  }),
  scenario('end-deleted-while-failing-to-start', async (stage) => {
    await stage.create();
    await stage.startLauncher((launcher) => launcher.fail('syncVirtualMachine', 'not yet'));
    await stage.schedule();
    await stage.look('failing', (vmi) => hasCondition(vmi, 'Synchronized'));
    await stage.delete();
    await stage.look('ended', final);
  }),
  scenario('end-deleted-with-grace', async (stage) => {
    await stage.run();
    await stage.delete();
    await stage.look('ended', final);
    await stage.launcher.remove();
    await stage.letGo();
    await stage.look('gone');
  }),
  scenario('end-deleted-without-grace', async (stage) => {
    await stage.run((vmi) => {
      vmi.spec.terminationGracePeriodSeconds = 0;
    });
    await stage.delete();
    await stage.look('ended', final);
    await stage.letGo();
    await stage.look('gone');
  }),
  scenario('end-guest-ignores', async (stage) => {
    await stage.run((vmi) => {
      vmi.spec.terminationGracePeriodSeconds = 8;
    });
    stage.launcher.guestObeys = false;
    await stage.delete();
    await stage.look('ended', final, 40_000);
    await stage.letGo();
    await stage.look('gone');
  }),
  scenario('end-shutting-down-by-launcher', async (stage) => {
    await stage.run();
    stage.launcher.guestObeys = false;
    // The pod was told to end: the launcher marks the domain.
    stage.launcher.change((domain) => {
      const { KubeVirt } = domain.Spec.Metadata;
      KubeVirt.GracePeriod = { ...(KubeVirt.GracePeriod as Json), MarkedForGracefulShutdown: true };
    });
    await stage.look('signalled');
    stage.launcher.guestObeys = true;
    await stage.look('ended', final);
  }),
  scenario('end-launcher-killed', async (stage) => {
    await stage.run();
    await stage.launcher.kill();
    await stage.look('ended', final, 70_000);
    await stage.launcher.remove();
    await stage.delete();
    await stage.letGo();
    await stage.look('gone');
  }),
  scenario('end-launcher-killed-while-scheduled', async (stage) => {
    await stage.create();
    await stage.startLauncher((launcher) => launcher.fail('syncVirtualMachine', 'not yet'));
    await stage.schedule();
    await stage.look('failing', (vmi) => hasCondition(vmi, 'Synchronized'));
    await stage.launcher.kill();
    await stage.look('ended', final, 70_000);
  }),
  scenario('end-pod-gone', async (stage) => {
    await stage.run();
    await stage.launcher.remove();
    await stage.look('ended', final, 70_000);
  }),
  scenario('end-forced-removal', async (stage) => {
    await stage.run();
    await stage.letGo();
    await stage.delete();
    await stage.look('gone', () => stage.launcher.ended, 40_000);
  }),
  scenario('same-name-new-uid', async (stage) => {
    await stage.run();
    await stage.delete();
    await stage.look('ended', final);
    await stage.launcher.remove();
    await stage.letGo();
    await stage.look('gone');
    await stage.run();
  }),
  scenario('final-stays-final', async (stage) => {
    await stage.run();
    stage.launcher.become('Shutoff', 'Shutdown');
    await stage.look('ended', final);
    await stage.patch({ metadata: { labels: { poked: 'yes' } } });
    await stage.look('poked');
  }),
];

/** All of them see the same restart: they wait for each other before it. */
const restarting: readonly Scenario[] = [
  scenario('restart-running', async (stage) => {
    await stage.run();
    await stage.restartAgent();
    await stage.look('again');
    stage.launcher.become('Paused', 'User');
    await stage.look('paused', (vmi) => hasCondition(vmi, 'Paused'));
  }),
  scenario('restart-while-scheduled', async (stage) => {
    await stage.create();
    await stage.startLauncher((launcher) => launcher.fail('syncVirtualMachine', 'not yet'));
    await stage.schedule();
    await stage.look('failing', (vmi) => hasCondition(vmi, 'Synchronized'));
    await stage.restartAgent();
    stage.launcher.heal('syncVirtualMachine');
    await stage.look('started', (vmi) => vmi.status.phase === 'Running');
  }),
  scenario('restart-while-ending', async (stage) => {
    await stage.run();
    stage.launcher.guestObeys = false;
    await stage.delete();
    await stage.look('signalled');
    await stage.restartAgent();
    stage.launcher.guestObeys = true;
    await stage.look('ended', final);
  }),
  scenario('restart-final', async (stage) => {
    await stage.run();
    stage.launcher.become('Shutoff', 'Shutdown');
    await stage.look('ended', final);
    await stage.restartAgent();
    await stage.look('again');
  }),
  scenario('restart-deleted-meanwhile', async (stage) => {
    await stage.run();
    await stage.restartAgent(() => stage.delete());
    await stage.look('ended', final);
  }),
  scenario('restart-ended-meanwhile', async (stage) => {
    await stage.run();
    await stage.restartAgent(async () => stage.launcher.become('Shutoff', 'Shutdown'));
    await stage.look('ended', final);
  }),
  scenario('restart-launcher-died-meanwhile', async (stage) => {
    await stage.run();
    await stage.restartAgent(() => stage.launcher.kill());
    await stage.look('ended', final, 60_000);
  }),
  scenario('restart-object-gone-meanwhile', async (stage) => {
    await stage.run();
    await stage.restartAgent(async () => {
      await stage.letGo();
      await stage.delete();
    });
    await stage.look('ended', () => stage.launcher.ended, 60_000);
  }),
  scenario('restart-paused', async (stage) => {
    await stage.run();
    stage.launcher.become('Paused', 'User');
    await stage.look('paused', (vmi) => hasCondition(vmi, 'Paused'));
    await stage.restartAgent();
    await stage.look('again');
  }),
];

export const scenarios: readonly Scenario[] = [...starting, ...running, ...ending];
export const restartScenarios: readonly Scenario[] = restarting;
