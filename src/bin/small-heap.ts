import { setFlagsFromString } from 'node:v8';
import { heapForStreams } from './heap-for-streams.ts';

/**
 * To be imported first. An agent's objects die soon; left to itself V8 takes tens of megabytes for those of one burst of starts
 * and keeps them. Flags on a command line would have to be given by everybody who starts the program, so these are some that V8
 * reads while it runs: the young generation stays as small as it begins, the old one is collected when it has grown by half.
 */
setFlagsFromString('--semi-space-growth-factor=1');
heapForStreams(false);
