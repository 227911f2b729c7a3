import { type Domain, domainName } from '../../src/api/index.ts';
import { scriptedDomain } from '../../test/fixtures/scripted-launcher.ts';

/** Anything that JSON can hold, looked into without types. */
// biome-ignore lint/suspicious/noExplicitAny: scenarios write and compare objects of every shape
export type Json = any;

/** What a real launcher makes of a VMI, as far as an agent looks at it. */
export function startedDomain(vmi: Json): Domain {
  const { namespace, name, uid } = vmi.metadata;
  const domain = scriptedDomain(`${namespace}/${name}`, uid, 'Running', 'Unknown');
  const { devices = {} } = vmi.spec.domain;
  domain.Spec.Name = domainName(namespace, name);
  domain.Spec.Type = 'kvm';
  domain.Spec.OS = { Type: { OS: 'hvm', Arch: 'x86_64', Machine: 'pc-q35-rhel9.6.0' } };
  domain.Spec.CurrentMemory = { Value: 524_288, Unit: 'KiB' };
  domain.Spec.Metadata.KubeVirt.GracePeriod = {
    DeletionGracePeriodSeconds: vmi.spec.terminationGracePeriodSeconds ?? 30,
    DeletionTimestamp: null,
    MarkedForGracefulShutdown: null,
  };
  domain.Spec.Devices.Disks = (devices.disks ?? []).map(({ name: volume, cdrom }: Json, index: number) => ({
    Device: cdrom ? 'cdrom' : 'disk',
    Type: 'file',
    Source: { Dev: '', File: `/var/run/kubevirt-ephemeral-disks/${volume}/disk.qcow2` },
    Target: { Bus: 'virtio', Device: `vd${String.fromCharCode(97 + index)}`, Tray: '' },
    Driver: { Cache: 'none', ErrorPolicy: 'stop', IO: '', Name: 'qemu', Type: 'qcow2', Discard: 'unmap' },
    Alias: { Name: volume, UserDefined: true },
  }));
  domain.Spec.Devices.Interfaces = (devices.interfaces ?? []).map(({ name: network }: Json, index: number) => ({
    Alias: { Name: network, UserDefined: true },
    MAC: { MAC: macOf(index) },
    Driver: null,
    LinkState: null,
    Model: { Type: 'virtio-non-transitional' },
    Type: 'ethernet',
    Target: { Device: `tap${index}`, Managed: 'no' },
  }));
  domain.Spec.Devices.Channels = [agentChannel('disconnected')];
  return domain;
}

export function agentChannel(state: 'connected' | 'disconnected') {
  const Target = { Name: 'org.qemu.guest_agent.0', Type: '', Address: '', Port: 0, State: state };
  return { Type: 'unix', Target };
}

export function macOf(index: number): string {
  return `52:54:00:12:34:5${index}`;
}
