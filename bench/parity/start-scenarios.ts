import { claim, final, network, type Scenario, scenario, starts, volume, withDomain } from './scenario.ts';
import type { Json } from './started-domain.ts';

/** How VMIs of all kinds start, or do not. */
export const startScenarios: readonly Scenario[] = [
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
