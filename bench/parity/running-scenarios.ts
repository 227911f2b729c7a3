import { hasCondition, network, type Scenario, scenario, volume } from './scenario.ts';
import { agentChannel, type Json, macOf } from './started-domain.ts';

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

function setGuestReport(domain: Json): void {
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

/** What happens to a guest that runs. */
export const runningScenarios: readonly Scenario[] = [
  scenario('guest-agent', async (stage) => {
    await stage.run(network({ masquerade: {} }));
    stage.launcher.guestInfo({ guestAgentVersion: '9.1.0', supportedCommands: enabled(commands) });
    stage.launcher.change((domain) => {
      connect(domain);
      setGuestReport(domain);
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
    stage.launcher.change((domain) => setGuestReport(domain));
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
    const setCredentialState = (Succeeded: boolean, Message: string) =>
      stage.launcher.change((domain) => {
        domain.Spec.Metadata.KubeVirt.AccessCredential = { Succeeded, Message };
      });
    setCredentialState(true, '');
    await stage.look('synchronized', (vmi) => hasCondition(vmi, 'AccessCredentialsSynchronized'));
    setCredentialState(false, 'no agent');
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
