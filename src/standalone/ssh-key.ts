import { execFile } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { errorMessage } from '../base/index.ts';
import { findSystemProgram } from '../host/index.ts';
import { NodeError } from './errors.ts';
import { writeFileAtomic } from './files.ts';
import type { NodePaths } from './paths.ts';

const run = promisify(execFile);
const deadlineMs = 20_000;
const keyType = 'ssh-ed25519';

/** The node's private key, in OpenSSH's form. */
export function sshKeyFile({ sshDir }: NodePaths): string {
  return path.join(sshDir, 'id_ed25519');
}

/** One line: type, key, comment. Undefined: there is none yet, or no readable one. */
export async function readSshPublicKey(paths: NodePaths): Promise<string | undefined> {
  const text = await readFile(`${sshKeyFile(paths)}.pub`, 'utf8').catch(() => '');
  const line = text.trim();
  return line.startsWith(`${keyType} `) && !line.includes('\n') ? line : undefined;
}

/**
 * The node's public key; the pair is made once and stays. Undefined: the machine has no OpenSSH client, so nobody would use it. Rejects with NodeError
 * CHILD_FAILED.
 */
export async function ensureSshKey(paths: NodePaths, comment: string): Promise<string | undefined> {
  const known = await readSshPublicKey(paths);
  if (known !== undefined) return known;
  const program = findSystemProgram('ssh-keygen');
  if (program === undefined) return undefined;
  const draft = `${sshKeyFile(paths)}.draft`;
  const removeDraft = () => Promise.all([draft, `${draft}.pub`].map((file) => rm(file, { force: true })));
  try {
    await removeDraft();
    await run(program, ['-q', '-t', 'ed25519', '-N', '', '-C', comment, '-f', draft], { timeout: deadlineMs });
    await writeFileAtomic(sshKeyFile(paths), await readFile(draft));
    // Last: a pair is there once its public half is.
    await writeFileAtomic(`${sshKeyFile(paths)}.pub`, await readFile(`${draft}.pub`));
    await removeDraft();
  } catch (cause) {
    throw new NodeError('CHILD_FAILED', `ssh-keygen made no key in ${paths.sshDir}: ${errorMessage(cause)}`, { cause });
  }
  return readSshPublicKey(paths);
}
