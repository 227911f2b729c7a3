import { NodeError } from '../errors.ts';
import { shellQuote } from '../pod-runner/index.ts';
import type { VmName } from './vm-agent.ts';

export interface SshOptionsWish {
  /** Joins its input and output to the guest's server. */
  readonly proxy: readonly string[];
  readonly identity: string;
  readonly knownHosts: string;
  readonly wish: VmName;
}

/** How long a server may take to say what it is. */
export const bannerSeconds = 30;

/** For ssh and scp alike. What the user has in ssh_config holds, too, unless it is said here. */
export function sshOptions({ proxy, identity, knownHosts, wish }: SshOptionsWish): string[] {
  const options = [
    `ProxyCommand=${proxy.map((word) => plain(shellQuote(word))).join(' ')}`,
    // Not by -i, which looks for the file before it knows what a percent sign means.
    `IdentityFile=${quoted(identity)}`,
    `HostKeyAlias=${wish.name}.${wish.namespace}`,
    `UserKnownHostsFile=${quoted(knownHosts)}`,
    'GlobalKnownHostsFile=/dev/null',
    'StrictHostKeyChecking=accept-new',
    'CheckHostIP=no',
    'UpdateHostKeys=no',
    // An agent with many keys would use up the server's patience.
    'IdentitiesOnly=yes',
    // Until the server has said what it is, and from then on for each of its answers: OpenSSH would wait for ever.
    `ConnectTimeout=${bannerSeconds}`,
    'ServerAliveInterval=15',
    'LogLevel=ERROR',
  ];
  return options.flatMap((option) => ['-o', option]);
}

/** OpenSSH puts something in the place of what follows a percent sign. */
function plain(text: string): string {
  return text.replaceAll('%', '%%');
}

/** One of the words that the option takes. */
function quoted(file: string): string {
  return `"${plain(file).replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
}

/** `[USER@]NAME`. Throws NodeError USAGE. */
export function loginOf(text: string): { readonly user: string | undefined; readonly name: string } {
  const at = text.lastIndexOf('@');
  const [user, name] = at < 0 ? [undefined, text] : [text.slice(0, at), text.slice(at + 1)];
  if (user !== '' && name !== '') return { user, name };
  throw new NodeError('USAGE', `${JSON.stringify(text)} is neither NAME nor USER@NAME`);
}

/** A file of a copy. */
export interface ScpFile {
  readonly inGuest: boolean;
  readonly file: string;
}

export interface ScpFiles {
  readonly user: string | undefined;
  readonly name: string;
  readonly files: readonly ScpFile[];
}

/** One of both is a local file, the other `[USER@]NAME:FILE`. Throws NodeError USAGE. */
export function scpFilesOf(source: string, target: string): ScpFiles {
  const all = [source, target].map((word) => {
    const colon = word.indexOf(':');
    // As scp itself reads it: a slash before the colon makes it a local file.
    const isInGuest = colon > 0 && !word.slice(0, colon).includes('/');
    return isInGuest ? { login: word.slice(0, colon), file: word.slice(colon + 1) } : { login: undefined, file: word };
  });
  const [login, ...others] = all.flatMap((each) => each.login ?? []);
  if (login === undefined || others.length > 0) {
    throw new NodeError('USAGE', 'scp: one of SOURCE and TARGET is of a VM ([USER@]NAME:FILE), the other one is not');
  }
  return { ...loginOf(login), files: all.map((each) => ({ inGuest: each.login !== undefined, file: each.file })) };
}
