import type { DomainReason, DomainStatus } from '../../src/api/index.ts';
import { final, hasCondition, type Scenario, scenario } from './scenario.ts';
import type { Json } from './started-domain.ts';

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

/** How VMIs end. */
export const endScenarios: readonly Scenario[] = [
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
