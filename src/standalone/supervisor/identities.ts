import { randomBytes } from 'node:crypto';
import { chmod } from 'node:fs/promises';
import path from 'node:path';
import { type AccessRule, type ApiToken, writeKubeconfig } from '../../apiserver/index.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';
import { type KubeconfigName, memberName, memberPaths, type NodePaths } from '../paths.ts';
import { kubevirtNamespace } from './node-objects.ts';

/** One user of the node's API: its name there, its token, its kubeconfig. */
export interface Identity extends ApiToken {
  readonly kubeconfig: string;
}

const account = (name: string) => `system:serviceaccount:${kubevirtNamespace}:${name}`;
const accountGroups = ['system:serviceaccounts', `system:serviceaccounts:${kubevirtNamespace}`];

const ofEachNode: ReadonlySet<KubeconfigName> = new Set(['virt-handler', 'node']);

type Account = Pick<ApiToken, 'user' | 'groups' | 'rules'>;

/** Who is who (docs/decisions/0011); each node's agent and kubelet have tokens of their own. No identity is in system:masters: what upstream keeps from users is kept from them here too. */
function accounts(nodeName: string): Readonly<Record<KubeconfigName, Account>> {
  return {
    'virt-controller': { user: account('kubevirt-controller'), groups: accountGroups },
    'virt-handler': { user: account('kubevirt-handler'), groups: accountGroups, rules: handlerRules },
    node: { user: `system:node:${nodeName}`, groups: ['system:nodes'] },
    admin: { user: 'admin' },
  };
}

/**
 * The users of the API, with tokens that stay from start to start. A token that is torn, or that another user has too, is
 * replaced. Until 0.1 one token in `api/token` served everybody: it goes on as the administrator's.
 */
export async function loadIdentities(paths: NodePaths, nodeName: string, nodes = 1): Promise<readonly Identity[]> {
  const identities: Identity[] = [];
  for (let index = 1; index <= nodes; index++) {
    const entries = Object.entries(accounts(memberName(nodeName, index))) as [KubeconfigName, Account][];
    const own = index === 1 ? entries : entries.filter(([name]) => ofEachNode.has(name));
    // The administrator's first: it is the one that users may have copied.
    for (const [name, user] of own.reverse()) {
      const taken = identities.map(({ token }) => token);
      identities.push({
        ...user,
        token: await ensureToken(tokenFile(paths, name, index), taken),
        kubeconfig: memberPaths(paths, index).kubeconfigs[name],
      });
    }
  }
  return identities;
}

/** Writes each identity's kubeconfig, for its owner only (0600). */
export async function writeKubeconfigs(
  identities: readonly Identity[],
  api: { readonly server: string; readonly ca: string },
): Promise<void> {
  await Promise.all(
    identities.map(({ kubeconfig, user, token }) => writeKubeconfig(kubeconfig, { ...api, user, token })),
  );
}

function tokenFile({ apiDir }: NodePaths, name: KubeconfigName, index: number): string {
  return name === 'admin' ? path.join(apiDir, 'token') : path.join(apiDir, 'tokens', memberName(name, index));
}

async function ensureToken(file: string, taken: readonly string[]): Promise<string> {
  const kept = (await readIfThere(file))?.trim() ?? '';
  if (/^[\w-]{32,}$/.test(kept) && !taken.includes(kept)) {
    await chmod(file, 0o600);
    return kept;
  }
  const token = randomBytes(24).toString('base64url');
  await writeFileAtomic(file, `${token}\n`, 0o600);
  return token;
}

/**
 * What virt-handler may do: the ClusterRole of daemonset/base/rbac.yaml, which is upstream's
 * (pkg/virt-operator/resource/generate/rbac/handler.go). A test compares the two.
 * So the standalone node shows at every start that the agent needs no more than a stock cluster grants it.
 */
export const handlerRules: readonly AccessRule[] = [
  { apiGroups: ['kubevirt.io'], resources: ['virtualmachineinstances'], verbs: ['update', 'list', 'watch'] },
  { apiGroups: [''], resources: ['nodes'], verbs: ['get', 'list', 'watch', 'patch'] },
  { apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list', 'watch'] },
  { apiGroups: [''], resources: ['events'], verbs: ['create', 'patch'] },
  { apiGroups: ['apiextensions.k8s.io'], resources: ['customresourcedefinitions'], verbs: ['get', 'list', 'watch'] },
  { apiGroups: ['kubevirt.io'], resources: ['kubevirts'], verbs: ['get', 'list', 'watch'] },
  { apiGroups: ['migrations.kubevirt.io'], resources: ['migrationpolicies'], verbs: ['get', 'list', 'watch'] },
  {
    apiGroups: ['backup.kubevirt.io'],
    resources: ['virtualmachinebackuptrackers', 'virtualmachinebackuptrackers/status'],
    verbs: ['list', 'watch', 'patch'],
  },
  { apiGroups: ['plugin.kubevirt.io'], resources: ['plugins'], verbs: ['get', 'list', 'watch'] },
];
