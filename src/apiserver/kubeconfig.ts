import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { stringify } from 'yaml';
import { replaceFile } from '../host/index.ts';

export interface KubeconfigOptions {
  /** `https://127.0.0.1:<port>`. */
  readonly server: string;
  /** PEM of the authority that signed the server's certificate; undefined with plain HTTP. */
  readonly ca: string | undefined;
  readonly user: string;
  readonly token: string;
  /** Name of cluster and context. Default `virt-node`. */
  readonly name?: string;
  /** Default `default`. */
  readonly namespace?: string;
}

/** Writes a kubeconfig readable by its owner only (0600), whole or not at all. */
export async function writeKubeconfig(file: string, options: KubeconfigOptions): Promise<void> {
  await writePrivateFile(file, kubeconfigText(options));
}

/** YAML, with a token in it: a secret. */
export function kubeconfigText(options: KubeconfigOptions): string {
  const { server, ca, user, token, name = 'virt-node', namespace = 'default' } = options;
  const cluster = ca === undefined ? { server } : { server, 'certificate-authority-data': base64(ca) };
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster }],
    users: [{ name: user, user: { token } }],
    contexts: [{ name, context: { cluster: name, user, namespace } }],
    'current-context': name,
  });
}

/** Whole or not at all, mode 0600 from its first byte on. */
async function writePrivateFile(file: string, text: string): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true });
  await replaceFile(file, text, 0o600);
}

function base64(text: string): string {
  return Buffer.from(text, 'utf8').toString('base64');
}
