import assert from 'node:assert/strict';
import { type KubeVirt, KubeVirtSettings } from '../../../../src/agent/cluster-config/index.ts';
import { NodeDevices } from '../../../../src/agent/devices/index.ts';
import { silentLogger, systemClock } from '../../../../src/base/index.ts';
import { DeviceMachine } from '../../../fixtures/device-machine.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { KubeletStandIn } from '../../../fixtures/kubelet-stand-in.ts';

/** Who runs the test: files may be given to nobody else without root. */
const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };

/** A machine, its kubelet, the cluster's configuration and the agent's device plugins. */
export class DeviceWorld {
  readonly machine = new DeviceMachine();
  readonly kubelet = new KubeletStandIn(this.machine.pluginsDir);
  readonly #handlers = new Set<() => void>();
  readonly #settings = new KubeVirtSettings(
    { nodeName: 'node1' },
    {
      kubevirts: {
        hasSynced: true,
        list: () => (this.#kubevirt ? [this.#kubevirt] : []),
        addHandlers: ({ added }) => {
          this.#handlers.add(added);
          return () => this.#handlers.delete(added);
        },
      },
      log: silentLogger,
    },
  );
  devices = this.#createDevices();
  #kubevirt: KubeVirt | undefined;

  /** `spec.configuration` of the KubeVirt object. */
  configure(configuration: object): void {
    const metadata = { name: 'kubevirt', namespace: 'kubevirt' };
    const status = { phase: 'Deployed' };
    this.#kubevirt = { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata, spec: { configuration }, status };
    for (const tell of this.#handlers) tell();
  }

  permit(permittedHostDevices: object): void {
    this.configure({ permittedHostDevices });
  }

  async start(): Promise<void> {
    this.#settings.begin();
    await this.kubelet.start();
    await this.devices.start();
  }

  /** Another agent process on the same machine. */
  async restartAgent(): Promise<void> {
    await this.devices.stop();
    this.devices = this.#createDevices();
    await this.devices.start();
  }

  /** Waits for the devices that the kubelet knows of a resource, as `id health`. */
  async listed(resource: string, ...wanted: string[]): Promise<void> {
    await eventually(() =>
      assert.deepEqual(
        this.kubelet.devices(resource).map(({ ID, health }) => `${ID} ${health}`),
        wanted,
      ),
    );
  }

  async close(): Promise<void> {
    await this.devices.stop();
    this.#settings.stop();
    await this.kubelet.close();
    this.machine.remove();
  }

  #createDevices(): NodeDevices {
    const { devDir, sysDir, root, pluginsDir, shareDir } = this.machine;
    const roots = { devDir, sysDir, hostRoot: root };
    return new NodeDevices(
      { pluginsDir, roots, shareDir, maxDevices: 2, owner },
      { settings: this.#settings, clock: systemClock, log: silentLogger },
    );
  }
}
