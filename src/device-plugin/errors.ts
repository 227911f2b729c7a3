import { CodedError } from '../base/index.ts';

export type DevicePluginErrorCode =
  /** Its directory or its socket is not there. */
  | 'KUBELET_ABSENT'
  /** No process listens on its socket, or what listens does not speak gRPC. */
  | 'KUBELET_UNREACHABLE'
  /** No answer in time. */
  | 'KUBELET_SILENT'
  /** It answered with an error. */
  | 'KUBELET_REFUSED'
  /** The plugin's own socket could not be made, or does not answer. */
  | 'SOCKET_FAILED'
  /** Registered, but the kubelet does not ask for the list of devices. */
  | 'NOT_LISTENED'
  /** A container was to get a device that this plugin never offered. */
  | 'UNKNOWN_DEVICE'
  /** The device is offered, but cannot be given to a container now. */
  | 'DEVICE_UNUSABLE';

export class DevicePluginError extends CodedError<DevicePluginErrorCode> {}
