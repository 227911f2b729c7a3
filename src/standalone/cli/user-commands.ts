import type { Argv } from 'yargs';
import { NodeError } from '../errors.ts';
import type { OutputFormat } from './answer-format.ts';
import { kubeconfigFlags, usersFlags } from './flags.ts';
import type { UserWish } from './users.ts';

/** Commands about who may use the node's API. */
export type UserCommand =
  | { readonly command: 'users'; readonly stateDir: string; readonly output: OutputFormat }
  | { readonly command: 'kubeconfig'; readonly stateDir: string }
  | ({ readonly command: 'user-add'; readonly stateDir: string } & UserWish)
  | { readonly command: 'user-revoke'; readonly stateDir: string; readonly user: string };

export function addUserCommands(parser: Argv, choose: (command: UserCommand) => void): void {
  parser
    .command(
      'kubeconfig',
      'print your kubeconfig, or make one for an ordinary user (--user), or end the right of a user (--revoke)',
      (flags) => flags.options(kubeconfigFlags),
      (given) => choose(wished(given)),
    )
    .command(
      'users',
      'list the ordinary users of the API',
      (flags) => flags.options(usersFlags),
      (given) => choose({ command: 'users', stateDir: given['state-dir'], output: given.output }),
    );
}

interface Values {
  readonly 'state-dir': string;
  readonly user: string | undefined;
  readonly namespace: string | undefined;
  readonly 'read-only': boolean;
  readonly duration: number | undefined;
  readonly output: string | undefined;
  readonly revoke: boolean;
}

/** Throws NodeError USAGE for flags that say nothing together. */
function wished(given: Values): UserCommand {
  const { user, namespace, duration: lastsMs, output, revoke } = given;
  const stateDir = given['state-dir'];
  const rights = Object.entries({ namespace, 'read-only': given['read-only'] || undefined, duration: lastsMs, output });
  const [flag] = rights.flatMap(([name, value]) => (value === undefined ? [] : name));
  if (user === undefined) {
    if (revoke) throw new NodeError('USAGE', '--revoke: --user says whose right ends');
    if (flag !== undefined) throw new NodeError('USAGE', `--${flag} is of an ordinary user: --user says which`);
    return { command: 'kubeconfig', stateDir };
  }
  if (revoke) {
    if (flag !== undefined) throw new NodeError('USAGE', `--revoke and --${flag}: choose one of them`);
    return { command: 'user-revoke', stateDir, user };
  }
  const where = namespace === undefined ? {} : { namespace };
  return { command: 'user-add', stateDir, user, readOnly: given['read-only'], ...where, lastsMs, output };
}
