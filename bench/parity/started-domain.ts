import type { Domain } from '../../src/api/index.ts';
import { shapeDevices } from '../../test/fixtures/scripted-devices.ts';

export { macOf } from '../../test/fixtures/scripted-devices.ts';

/** Anything that JSON can hold, looked into without types. */
// biome-ignore lint/suspicious/noExplicitAny: scenarios write and compare objects of every shape
export type Json = any;

/** What a real launcher makes of a VMI, as far as an agent looks at it. */
export function shapeStarted(domain: Domain, vmi: Json): void {
  domain.Spec.Type = 'kvm';
  domain.Spec.OS = { Type: { OS: 'hvm', Arch: 'x86_64', Machine: 'pc-q35-rhel9.6.0' } };
  domain.Spec.CurrentMemory = { Value: 524_288, Unit: 'KiB' };
  shapeDevices(domain, vmi.spec);
  domain.Spec.Devices.Channels = [agentChannel('disconnected')];
}

export function agentChannel(state: 'connected' | 'disconnected') {
  const Target = { Name: 'org.qemu.guest_agent.0', Type: '', Address: '', Port: 0, State: state };
  return { Type: 'unix', Target };
}
