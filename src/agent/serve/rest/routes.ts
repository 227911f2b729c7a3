/** What can be asked for below a VMI (upstream: cmd/virt-handler/virt-handler.go, runServer). */
export type RouteName =
  | 'console'
  | 'vnc'
  | 'usbredir'
  | 'vsock'
  | 'portforward'
  | 'screenshot'
  | 'pause'
  | 'unpause'
  | 'freeze'
  | 'unfreeze'
  | 'reset'
  | 'softreboot'
  | 'guestosinfo'
  | 'userlist'
  | 'filesystemlist'
  | 'backup'
  | 'redefine-checkpoint'
  | 'fetchcertchain'
  | 'querylaunchmeasurement'
  | 'injectlaunchsecret';

export interface RestRoute {
  readonly method: 'GET' | 'PUT';
  /** Below the VMI. */
  readonly path: string;
  readonly name: RouteName;
  /** The body is read; of others it is ignored. */
  readonly hasBody?: true;
  /** Answered by a websocket; a plain request is refused. */
  readonly isStream?: true;
}

export const basePath = '/v1/namespaces/:namespace/virtualmachineinstances/:name';

export const routes: readonly RestRoute[] = [
  { method: 'GET', path: '/console', name: 'console', isStream: true },
  { method: 'GET', path: '/vnc', name: 'vnc', isStream: true },
  { method: 'GET', path: '/usbredir', name: 'usbredir', isStream: true },
  { method: 'GET', path: '/vsock', name: 'vsock', isStream: true },
  // Upstream's agent has none: virt-api dials the guest itself.
  { method: 'GET', path: '/portforward/:port', name: 'portforward', isStream: true },
  { method: 'GET', path: '/portforward/:port/:protocol', name: 'portforward', isStream: true },
  { method: 'GET', path: '/vnc/screenshot', name: 'screenshot' },
  { method: 'PUT', path: '/pause', name: 'pause' },
  { method: 'PUT', path: '/unpause', name: 'unpause' },
  { method: 'PUT', path: '/freeze', name: 'freeze', hasBody: true },
  { method: 'PUT', path: '/unfreeze', name: 'unfreeze' },
  { method: 'PUT', path: '/reset', name: 'reset' },
  { method: 'PUT', path: '/softreboot', name: 'softreboot' },
  { method: 'GET', path: '/guestosinfo', name: 'guestosinfo' },
  { method: 'GET', path: '/userlist', name: 'userlist' },
  { method: 'GET', path: '/filesystemlist', name: 'filesystemlist' },
  { method: 'PUT', path: '/backup', name: 'backup', hasBody: true },
  { method: 'PUT', path: '/redefine-checkpoint', name: 'redefine-checkpoint', hasBody: true },
  { method: 'GET', path: '/sev/fetchcertchain', name: 'fetchcertchain' },
  { method: 'GET', path: '/sev/querylaunchmeasurement', name: 'querylaunchmeasurement' },
  { method: 'PUT', path: '/sev/injectlaunchsecret', name: 'injectlaunchsecret', hasBody: true },
];
