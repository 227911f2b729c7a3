export PS1='root@\h:\w# '
