set expandtab
set tabstop=2
set shiftwidth=2
