import { CodedError } from '../../base/index.ts';

export type CgroupErrorCode =
  /** The process has ended, or its cgroup has. */
  | 'CGROUP_GONE'
  /** This process sees cgroups through a namespace of its own, or the host's file system of cgroups is not there. */
  | 'CGROUP_UNREACHABLE'
  /** The kernel does not take the rules: too old, or without the rights for it. */
  | 'DEVICES_REFUSED'
  /** The kernel does not take the CPUs for threads, or they are none. */
  | 'CPUS_REFUSED'
  /** More programs, or longer ones, than this one changes. */
  | 'DEVICES_FOREIGN';

export class CgroupError extends CodedError<CgroupErrorCode> {}
