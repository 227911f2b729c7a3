import { final, hasCondition, type Scenario, scenario } from './scenario.ts';

/** All of them see the same restart: they wait for each other before it. */
export const restartScenarios: readonly Scenario[] = [
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
