import { errorMessage } from '../../../base/index.ts';
import { type Answer, accepted } from './answers.ts';
import { backupCheckpoint, backupOptions, launchSecret } from './body-shapes.ts';
import { ask, type Call, type LauncherCallDeps, type Order, order } from './call.ts';
import { RestError } from './errors.ts';

type Handler = (call: Call) => Promise<Answer>;

const normal = (reason: string, message: string) => ({ type: 'Normal', reason, message }) as const;

/** Routes that change a guest, but for freeze and unfreeze. */
export function commandHandlers(deps: LauncherCallDeps) {
  const plain = (how: Order): Handler => {
    return async (call) => {
      await order(call, deps, how);
      return accepted;
    };
  };
  return {
    pause: plain({
      give: (launcher, signal) => launcher.pause(signal),
      done: normal('Paused', 'the virtual machine was paused on request'),
    }),
    unpause: plain({
      give: (launcher, signal) => launcher.unpause(signal),
      done: normal('Unpaused', 'the virtual machine goes on, on request'),
    }),
    reset: plain({
      give: (launcher, signal) => launcher.reset(signal),
      done: normal('Reset', 'the virtual machine was reset on request'),
    }),
    softreboot: plain({
      give: (launcher, signal) => launcher.softReboot(signal),
      done: normal('SoftRebooted', 'the guest was asked to reboot'),
    }),
    backup: async (call: Call) => {
      const options = backupOptions(call.body);
      const give: Order['give'] = (launcher, signal) => launcher.backup(options, signal);
      await order(call, deps, { give, failsAs: 'BAD_REQUEST', failed: 'BackupError' });
      return accepted;
    },
    injectlaunchsecret: async (call: Call) => {
      const secret = launchSecret(call.body);
      await order(call, deps, { give: (launcher, signal) => launcher.injectLaunchSecret(secret, signal) });
      return accepted;
    },
    'redefine-checkpoint': (call: Call) => redefineCheckpoint(call, deps),
  } satisfies Record<string, Handler>;
}

/** The caller tells "corrupt, give it up" from "try again" by the status. */
async function redefineCheckpoint(call: Call, deps: LauncherCallDeps): Promise<Answer> {
  const checkpoint = backupCheckpoint(call.body);
  const answer = await ask(call, deps, async (launcher, signal) => {
    try {
      return await launcher.redefineCheckpoint(checkpoint, signal);
    } catch (cause) {
      throw new RestError('UNAVAILABLE', `RedefineCheckpoint call failed: ${errorMessage(cause)}`, { cause });
    }
  });
  if (answer.kind === 'done') return { kind: 'empty', httpStatus: 200 };
  const code = answer.isCorrupt ? 'CHECKPOINT_INVALID' : 'UNAVAILABLE';
  throw new RestError(code, `RedefineCheckpoint failed: ${answer.message}`);
}
