import { resources } from '../../api/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';

/** In namespace `default`: what a VM names in `accessCredentials` so that the node's user may log in. */
export const sshSecret = { namespace: 'default', name: 'virt-node-ssh-key' } as const;

/** Has the node's public key in it; empty without one, so that VMs that name it start all the same. */
export async function publishSshKey(client: KubeClient, publicKey: string | undefined): Promise<void> {
  const data = publicKey === undefined ? {} : { key: Buffer.from(`${publicKey}\n`).toString('base64') };
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { ...sshSecret }, type: 'Opaque', data };
  try {
    await client.create(resources.secrets, secret);
  } catch (error) {
    if (!isKubeError(error, 'ALREADY_EXISTS')) throw error;
    await client.patch(resources.secrets, sshSecret, { data: { key: null, ...data } }, 'merge');
  }
}
