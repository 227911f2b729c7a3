import { after, before } from 'node:test';
import type { LibvirtHypervisor } from '../../../src/launcher/daemon/libvirt-hypervisor.ts';
import { domainCases } from '../../fixtures/domain-cases.ts';
import { PrivateLibvirtd } from '../../fixtures/libvirtd.ts';
import { sessionHypervisor } from '../../fixtures/session-hypervisor.ts';

let daemon: PrivateLibvirtd;
let hypervisor: LibvirtHypervisor;

before(async () => {
  daemon = await PrivateLibvirtd.start();
  hypervisor = await sessionHypervisor(daemon);
});
after(async () => {
  await hypervisor?.close();
  await daemon?.remove();
});

domainCases('a real libvirtd', 'cases_real', () => ({
  hypervisor,
  async endDomain(name) {
    const ended = new Promise<void>((resolve) => {
      const stop = hypervisor.onEvent((event) => {
        if (event.kind !== 'lifecycle' || event.event !== 5) return;
        stop();
        resolve();
      });
    });
    process.kill(await daemon.qemuPid(name), 'SIGTERM');
    await ended;
  },
}));
