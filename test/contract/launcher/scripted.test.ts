import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { CmdCaller } from '../../fixtures/cmd-caller.ts';
import { launcherVmiUid } from '../../fixtures/launcher-vmi.ts';
import { startNotifyAgent } from '../../fixtures/notify-agent.ts';
import { type EventOrder, eventOrders, ScriptedGuest } from '../../fixtures/scripted-guest.ts';
import { ScriptedLauncher } from '../../fixtures/scripted-launcher.ts';
import { launcherCases, ownEndCases } from './cases.ts';
import type { LauncherSubject } from './subject.ts';

/** The launcher that tests and benches play with. */
async function start(order: EventOrder): Promise<LauncherSubject> {
  const dir = mkdtempSync(path.join(tmpdir(), 'cs-'));
  const pipeFile = path.join(dir, 'pipe');
  const agent = await startNotifyAgent(pipeFile);
  const launcher = await ScriptedLauncher.start({ socketFile: path.join(dir, 'sockets/launcher-sock') });
  const identity = { namespace: 'default', name: 'small', uid: launcherVmiUid };
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = () => resolve(launcher.stop());
  });
  const options = { pipeFile, identity, order, stepMs: 2, isDeaf: true };
  const guest = new ScriptedGuest(launcher, options, { onGone: () => setImmediate(end) });
  const cmd = new CmdCaller(launcher.socketFile);
  const close = async () => {
    cmd.close();
    guest.close();
    end();
    await ended;
    await agent.close();
    rmSync(dir, { recursive: true, force: true });
  };
  const powerOff = () => guest.act({ guest: 'shutdown' });
  return { cmd, commandSocket: launcher.socketFile, agent, ended, powerOff, close };
}

launcherCases('the scripted launcher', () => start('define-first'));
ownEndCases('the scripted launcher', () => start('define-first'));

/** Of the other orders the definition is told late, in another way, or not at all. */
for (const order of eventOrders.filter((each) => each !== 'define-first')) {
  ownEndCases(`the scripted launcher with its events ${order}`, () => start(order));
}
