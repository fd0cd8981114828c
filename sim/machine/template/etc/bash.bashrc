# System-wide .bashrc file for interactive bash(1) shells.

[ -z "${PS1-}" ] && return
shopt -s checkwinsize
PS1='\u@\h:\w\$ '
