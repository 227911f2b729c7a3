import type { KubeObject } from './kubernetes.ts';

/** The parts of a core Service that are read here. Objects keep fields that are not named. */

export interface ServicePort {
  name?: string;
  protocol?: string;
  port: number;
  targetPort?: number | string;
  nodePort?: number;
}

export interface Service extends KubeObject {
  spec?: {
    type?: string;
    selector?: Record<string, string>;
    ports?: ServicePort[];
    clusterIP?: string;
    clusterIPs?: string[];
    ipFamilies?: string[];
    ipFamilyPolicy?: string;
    sessionAffinity?: string;
    externalIPs?: string[];
    externalName?: string;
    publishNotReadyAddresses?: boolean;
  };
}

export interface EndpointAddress {
  ip: string;
  nodeName?: string;
  targetRef?: { kind: 'Pod'; namespace?: string; name: string; uid?: string };
}

export interface Endpoints extends KubeObject {
  subsets?: {
    addresses?: EndpointAddress[];
    notReadyAddresses?: EndpointAddress[];
    ports?: { name?: string; port: number; protocol: string }[];
  }[];
}

/** Of discovery.k8s.io/v1: pods of a Service whose ports have the same numbers. */
export interface EndpointSlice extends KubeObject {
  addressType: 'IPv4';
  endpoints: {
    addresses: string[];
    conditions: { ready: boolean; serving: boolean; terminating: boolean };
    nodeName?: string;
    targetRef?: EndpointAddress['targetRef'];
  }[];
  ports: { name: string; port: number; protocol: string }[];
}
