import type { Container, PodVolume, VirtualMachineInstance, VolumeMount } from '../../api/index.ts';
import { isRecord, listOf, memberAt } from '../../base/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { hasGuaranteedResources } from './disk-containers.ts';
import { PodRenderError } from './errors.ts';
import { hasNetworkInfo, networkInfoMount } from './network-info.ts';
import { ownDirectories } from './user.ts';

const annotation = 'hooks.kubevirt.io/hookSidecars';
const sockets = 'hook-sidecar-sockets';
const socketsDir = '/var/run/kubevirt-hooks';

interface Hook {
  readonly image: string;
  readonly imagePullPolicy?: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  /** A file of a config map, as a program that is run. */
  readonly configMap?: { readonly name: string; readonly key: string; readonly hookPath: string };
  readonly pvc?: { readonly name: string; readonly volumePath: string; readonly sharedComputePath?: string };
  /** Network plug-in that it belongs to. */
  readonly binding?: string;
  readonly readsNetworkInfo?: boolean;
}

export interface HookSidecars {
  readonly containers: readonly Container[];
  readonly volumes: readonly PodVolume[];
  /** Of `compute`. */
  readonly mounts: readonly VolumeMount[];
}

/**
 * Containers that change the domain before it is defined (upstream: pkg/hooks, pkg/network/netbinding): those that an annotation of the VMI lists, then
 * one for each network plug-in that has one. Throws PodRenderError.
 */
export function hookSidecars(vmi: VirtualMachineInstance, config: ControllerConfig): HookSidecars {
  const hooks = [...listed(vmi), ...ofBindings(vmi, config)];
  if (hooks.length === 0) return { containers: [], volumes: [], mounts: [] };
  return {
    containers: hooks.map((hook, index) => containerOf(hook, `hook-sidecar-${index}`, vmi, config)),
    volumes: [{ name: sockets, emptyDir: {} }, ...hooks.flatMap(volumesOf)],
    mounts: [
      { name: sockets, mountPath: socketsDir },
      ...hooks.flatMap(({ pvc }) =>
        pvc?.sharedComputePath ? [{ name: pvc.name, mountPath: pvc.sharedComputePath }] : [],
      ),
    ],
  };
}

function listed({ metadata }: VirtualMachineInstance): Hook[] {
  const text = metadata.annotations?.[annotation];
  if (!text) return [];
  const hooks = listOf(parsed(text));
  if (hooks.length === 0) throw invalid('is no list of containers in JSON');
  return hooks.map((hook, index) => {
    if (!isRecord(hook)) throw invalid(`[${index}] is no object`);
    const { image, configMap, pvc } = hook;
    if (typeof image !== 'string' || image === '') {
      throw invalid(`[${index}].image is missing: this controller has no image of its own for hooks`);
    }
    needTexts(configMap, ['name', 'key', 'hookPath'], `[${index}].configMap`);
    needTexts(pvc, ['name', 'volumePath'], `[${index}].pvc`);
    return hook as unknown as Hook;
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function needTexts(value: unknown, names: readonly string[], what: string): void {
  if (value === undefined) return;
  const missing = names.find((name) => typeof memberAt(value, name) !== 'string');
  if (missing) throw invalid(`${what}.${missing} must be a string`);
}

function ofBindings({ spec }: VirtualMachineInstance, config: ControllerConfig): Hook[] {
  const { networkBindings, imagePullPolicy } = config;
  const names = (spec.domain.devices?.interfaces ?? []).flatMap(({ binding }) => (binding ? [binding.name] : []));
  return [...new Set(names)].flatMap((name) => {
    const plugin = Object.hasOwn(networkBindings, name) ? networkBindings[name] : undefined;
    if (!plugin?.sidecarImage) return [];
    const readsNetworkInfo = plugin.downwardAPI === 'device-info';
    return [{ image: plugin.sidecarImage, imagePullPolicy, binding: name, readsNetworkInfo }];
  });
}

function containerOf(hook: Hook, name: string, vmi: VirtualMachineInstance, config: ControllerConfig): Container {
  const { image, imagePullPolicy, command, args, configMap, pvc, binding } = hook;
  const nonRoot = (vmi.status?.runtimeUser ?? 0) !== 0;
  return {
    name,
    image,
    ...(imagePullPolicy && { imagePullPolicy }),
    ...(command && { command: command.map(String) }),
    ...(args && { args: args.map(String) }),
    env: [
      ...ownDirectories(nonRoot),
      { name: 'CONTAINER_NAME', value: name },
      ...(binding ? [{ name: 'NETWORK_BINDING_PLUGIN_NAME', value: binding }] : []),
    ],
    resources: resourcesOf(vmi, config),
    volumeMounts: [
      { name: sockets, mountPath: socketsDir, subPath: name },
      ...(hook.readsNetworkInfo && hasNetworkInfo(vmi, config) ? [networkInfoMount] : []),
      ...(configMap ? [{ name: configMap.name, mountPath: configMap.hookPath, subPath: configMap.key }] : []),
      ...(pvc ? [{ name: pvc.name, mountPath: pvc.volumePath }] : []),
    ],
    terminationMessagePolicy: 'FallbackToLogsOnError',
    securityContext: nonRoot
      ? {
          runAsUser: 107,
          runAsGroup: 107,
          runAsNonRoot: true,
          allowPrivilegeEscalation: false,
          capabilities: { drop: ['ALL'] },
        }
      : { runAsUser: 0, runAsNonRoot: false },
  };
}

/** Without figures a container is not Guaranteed, nor is the pod whose CPUs are its own. */
function resourcesOf(vmi: VirtualMachineInstance, { launcherPods }: ControllerConfig) {
  const { requests = {}, limits = {} } = launcherPods.sideContainers.sidecar ?? {};
  if (!hasGuaranteedResources(vmi)) return { requests, limits };
  const same = { cpu: '200m', memory: '64M', ...limits };
  return { requests: same, limits: same };
}

function volumesOf({ configMap, pvc }: Hook): PodVolume[] {
  return [
    ...(configMap ? [{ name: configMap.name, configMap: { name: configMap.name, defaultMode: 0o755 } }] : []),
    ...(pvc ? [{ name: pvc.name, persistentVolumeClaim: { claimName: pvc.name } }] : []),
  ];
}

function invalid(problem: string): PodRenderError {
  return new PodRenderError('BAD_SIDECAR', `annotation ${annotation} ${problem}`);
}
